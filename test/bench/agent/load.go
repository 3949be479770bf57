// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// request is what a balancer sends, on a connection that stays.
const request = "GET /health HTTP/1.1\r\nHost: node\r\n\r\n"

// client is one connection. It does as little as it can: what it costs is measured along.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

func dial(ctx context.Context, address string) (*client, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &client{conn, bufio.NewReader(conn)}, nil
}

// ask sends a request and reads the answer, which must have status 200.
func (c *client) ask() error {
	if _, err := io.WriteString(c.conn, request); err != nil {
		return err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("answered %q", line)
	}
	length := -1
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("an answer without its length")
	}
	_, err = c.in.Discard(length)
	return err
}

// onAll runs f on so many connections beside each other.
func onAll(ctx context.Context, address string, connections int, f func(i int, c *client) error) error {
	var all errgroup.Group
	for i := range connections {
		c, err := dial(ctx, address)
		if err != nil {
			return err
		}
		all.Go(func() error {
			defer func() { _ = c.conn.Close() }()
			return f(i, c)
		})
	}
	return all.Wait()
}

// atRate sends requests at a rate, whether answers come or not, and returns how long each took. A request that should
// have been sent while its connection still waited for an answer counts from when it should have been.
func atRate(ctx context.Context, address string, o *options) ([]time.Duration, error) {
	period := time.Duration(o.connections) * time.Second / time.Duration(o.rate)
	took := make([][]time.Duration, o.connections)
	began := time.Now().Add(10 * time.Millisecond)
	err := onAll(ctx, address, o.connections, func(i int, c *client) error {
		due := began.Add(period * time.Duration(i) / time.Duration(o.connections))
		for ; due.Sub(began) < o.duration; due = due.Add(period) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			from := due
			if wait := time.Until(due); wait > 0 {
				time.Sleep(wait)
				from = time.Now() // a sleep that was too long is the client's
			}
			if err := c.ask(); err != nil {
				return err
			}
			took[i] = append(took[i], time.Since(from))
		}
		return nil
	})
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	return all, err
}

// asFastAsItCan returns how many requests a second are answered where each connection asks again at once.
func asFastAsItCan(ctx context.Context, address string, o *options) (float64, error) {
	counts := make([]int, o.connections)
	began := time.Now()
	err := onAll(ctx, address, o.connections, func(i int, c *client) error {
		for time.Since(began) < o.duration {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := c.ask(); err != nil {
				return err
			}
			counts[i]++
		}
		return nil
	})
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / time.Since(began).Seconds(), err
}

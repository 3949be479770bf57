// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// request is what a balancer sends, on a connection that stays.
const request = "GET /health HTTP/1.1\r\nHost: node\r\n\r\n"

// connections are those that the requests come on.
const connections = 8

// client is one connection. It does as little as it can: what it costs is measured along.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

// ask sends a request and reads the answer, which must have status 200.
func (c *client) ask() error {
	if _, err := io.WriteString(c.conn, request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// onAll runs f on all connections beside each other.
func onAll(ctx context.Context, address string, f func(i int, c *client) error) error {
	var all errgroup.Group
	for i := range connections {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		all.Go(func() error {
			defer func() { _ = conn.Close() }()
			return f(i, &client{conn, bufio.NewReader(conn)})
		})
	}
	return all.Wait()
}

// atRate sends requests at a rate, whether answers come or not, and returns how long each took. A request that should
// have been sent while its connection still waited for an answer counts from when it should have been.
func atRate(ctx context.Context, address string, rate int, duration time.Duration) ([]time.Duration, error) {
	period := connections * time.Second / time.Duration(rate)
	took := make([][]time.Duration, connections)
	began := time.Now().Add(10 * time.Millisecond)
	err := onAll(ctx, address, func(i int, c *client) error {
		due := began.Add(period * time.Duration(i) / connections)
		for ; due.Sub(began) < duration && ctx.Err() == nil; due = due.Add(period) {
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
		return ctx.Err()
	})
	return slices.Concat(took...), err
}

// asFastAsItCan returns how many requests a second are answered where each connection asks again at once.
func asFastAsItCan(ctx context.Context, address string, duration time.Duration) (float64, error) {
	var sum atomic.Int64
	began := time.Now()
	err := onAll(ctx, address, func(_ int, c *client) error {
		for time.Since(began) < duration && ctx.Err() == nil {
			if err := c.ask(); err != nil {
				return err
			}
			sum.Add(1)
		}
		return ctx.Err()
	})
	return float64(sum.Load()) / time.Since(began).Seconds(), err
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
)

// Clients are some that send requests through an HAProxy, each the next one when it has the answer to the last, and
// keep their connections as long as they may.
type Clients struct {
	whose     func(body string) string
	transport *http.Transport

	mu     sync.Mutex
	asked  []int          // requests that have ended, by client
	served map[string]int // answers, by who gave them
	failed []string
}

const (
	numberOfClients = 3
	// pause is between two requests of one client.
	pause = 5 * time.Millisecond
	// requestLimit bounds the whole of a request: the machine may be busy.
	requestLimit = time.Minute
)

// StartClients lets clients connect to the address of an HAProxy's frontend until the test ends. whose tells by an
// answer who has given it.
func StartClients(t testing.TB, network, address string, whose func(body string) string) *Clients {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &Clients{whose: whose, asked: make([]int, numberOfClients), served: map[string]int{}}
	c.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
		MaxIdleConnsPerHost: numberOfClients,
	}
	var all sync.WaitGroup
	for i := range numberOfClients {
		all.Go(func() {
			for ctx.Err() == nil {
				body, err := c.ask()
				c.add(i, body, err)
				time.Sleep(pause)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
		c.transport.CloseIdleConnections()
	})
	return c
}

func (c *Clients) ask() (string, error) {
	client := &http.Client{Transport: c.transport, Timeout: requestLimit}
	resp, err := client.Get("http://nodes/")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

func (c *Clients) add(client int, body string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[client]++
	if err != nil {
		c.failed = append(c.failed, err.Error())
		return
	}
	c.served[c.whose(body)]++
}

// Failed are the errors of all requests that have failed, and answers other than 200.
func (c *Clients) Failed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.failed)
}

func (c *Clients) by(server string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served[server]
}

// Settle waits until no request is under way that is under way now.
func (c *Clients) Settle(t testing.TB) {
	t.Helper()
	asked := func() []int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Clone(c.asked)
	}
	before := asked()
	cluster.Eventually(t, "what is under way ends", func() error {
		for i, n := range asked() {
			if n == before[i] {
				return fmt.Errorf("client %d still waits", i)
			}
		}
		return nil
	})
}

// PassBy waits until the others have served a hundred requests more each, and checks that this server has served none.
func (c *Clients) PassBy(t testing.TB, out string, others ...string) {
	t.Helper()
	c.Settle(t)
	before := c.by(out)
	for _, other := range others {
		c.serves(t, other, 100)
	}
	if n := c.by(out); n != before {
		t.Errorf("%s was sent %d requests", out, n-before)
	}
}

// Reach waits until the server serves requests.
func (c *Clients) Reach(t testing.TB, server string) {
	t.Helper()
	c.serves(t, server, 10)
}

func (c *Clients) serves(t testing.TB, server string, more int) {
	t.Helper()
	want := c.by(server) + more
	cluster.Eventually(t, server+" serves", func() error {
		if n := c.by(server); n < want {
			// A connection may last as long as it likes, with the server that it was given once.
			c.transport.CloseIdleConnections()
			return fmt.Errorf("%d requests are missing", want-n)
		}
		return nil
	})
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentclient asks a node agent what load balancers and Prometheus ask it.
package agentclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/internal/agent/health"
	"github.com/nodegate/nodegate/test/cluster"
)

// Client is a client of the agent that writes Log.
type Client struct {
	*cluster.Log
	// Addresses are those of the agent's servers, by their names in the log.
	Addresses map[string]string
}

// New returns a client, with a log for the agent.
func New() *Client { return &Client{Log: &cluster.Log{}, Addresses: map[string]string{}} }

// Listens waits until the agent has started, and finds the addresses of its servers. It fails the test if the agent
// ends.
func (c *Client) Listens(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	cluster.Eventually(t, "the agent has started", func() error {
		select {
		case <-ended:
			t.Fatalf("the agent has ended:\n%s", c.Log)
		default:
		}
		started := false
		for line := range strings.Lines(c.String()) {
			var entry struct{ Msg, Server, Address string }
			if json.Unmarshal([]byte(line), &entry) != nil {
				continue
			}
			if entry.Msg == "Listening" {
				c.Addresses[entry.Server] = entry.Address
			}
			started = started || entry.Msg == "Starting"
		}
		if !started {
			return errors.New("the log does not say so")
		}
		return nil
	})
}

// Answer is an answer of /health.
type Answer struct {
	health.Answer
	Code     int
	FailOpen string // the header
	Raw      string
}

// Health asks for /health with a query.
func (c *Client) Health(t *testing.T, query string) Answer {
	t.Helper()
	resp, body := c.do(t, "health", "/health"+query) //nolint:bodyclose // do closes it
	a := Answer{Code: resp.StatusCode, FailOpen: resp.Header.Get(health.FailOpenHeader), Raw: body}
	if err := json.Unmarshal([]byte(body), &a.Answer); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if a.Answer.FailOpen != (a.FailOpen != "") {
		t.Errorf("the header and the body differ: %q, %s", a.FailOpen, body)
	}
	return a
}

// Is waits until /health answers like this. reason is contained in the reason of the first check.
func (c *Client) Is(t *testing.T, code int, failOpen bool, reason string) {
	t.Helper()
	cluster.Eventually(t, "/health", func() error {
		a := c.Health(t, "")
		if a.Code != code || (a.FailOpen != "") != failOpen || !strings.Contains(a.Checks[0].Reason, reason) {
			return fmt.Errorf("status %d: %s", a.Code, a.Raw)
		}
		return nil
	})
}

// Get asks one of the agent's servers for a path.
func (c *Client) Get(t *testing.T, server, path string) (code int, body string) {
	t.Helper()
	resp, body := c.do(t, server, path) //nolint:bodyclose // do closes it
	return resp.StatusCode, body
}

func (c *Client) do(t *testing.T, server, path string) (*http.Response, string) {
	t.Helper()
	resp, err := http.Get("http://" + c.Addresses[server] + path)
	cluster.Must(t, err)
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	cluster.Must(t, err)
	return resp, string(body)
}

// Metric returns the value of a line of the agent's metrics, or 0 if there is none.
func (c *Client) Metric(t *testing.T, name string) float64 {
	t.Helper()
	_, text := c.Get(t, "metrics", "/metrics")
	n, err := cluster.Metric(text, name)
	cluster.Must(t, err)
	return n
}

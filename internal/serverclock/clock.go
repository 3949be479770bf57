// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package serverclock

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// late is how much an answer may say less than what was known: it was under way, and has whole seconds.
const late = 2 * time.Second

// Clock reads the time from the header Date of the API server's answers. In between it goes on by this machine's clock,
// without its steps. It may be some time behind the API server, and hardly ahead. It is a clock.PassiveClock, and safe
// for concurrent use.
type Clock struct {
	// Own is this machine's clock.
	Own clock.PassiveClock

	mu         sync.Mutex
	date, here time.Time // of one answer: the API server's time, and when it came
}

// Now returns the time by the API server's clock, or by this machine's before the first answer.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at(c.Own.Now())
}

// Since returns the time since another one.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *Clock) at(own time.Time) time.Time {
	if c.date.IsZero() {
		return own
	}
	return c.date.Add(own.Sub(c.here))
}

// answered takes the time from an answer if it is later than what is known, or if a clock was set.
func (c *Clock) answered(date time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.Own.Now()
	if behind := c.at(own).Sub(date); c.date.IsZero() || behind < 0 || behind > late {
		c.date, c.here = date, own
	}
}

// Wrap returns a transport whose answers set the clock.
func (c *Clock) Wrap(inner http.RoundTripper) http.RoundTripper { return &transport{inner, c} }

type transport struct {
	http.RoundTripper
	clock *Clock
}

// WrappedRoundTripper lets client-go find the transport.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	if err == nil && answer.StatusCode < http.StatusInternalServerError { // else it may be a proxy's
		if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			t.clock.answered(date)
		}
	}
	return answer, err
}

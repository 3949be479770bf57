// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"errors"
	"net/http"
	"path"
	"sync"
	"time"
)

// Fence refuses the writes of a process that has had a lease, and has not renewed it for a time, or has failed to. A
// process that was stopped for longer than its lease goes on as the leader until the election notices, and would act on
// what it knew before: meanwhile another one leads. It is safe for concurrent use.
type Fence struct {
	// Lease is the name of the lease.
	Lease string
	// Valid is how long the process may write after it has begun to renew the lease: less than the lease lasts.
	Valid time.Duration

	now     func() time.Time // of tests
	mu      sync.Mutex
	renewed time.Time // zero: the process has had no lease yet
	failed  bool      // the last try to renew it
}

// errExpired means that the process may lead no longer.
var errExpired = errors.New("this process has not renewed its lease: it writes nothing, as another may lead")

// Wrap returns a transport that refuses writes.
func (f *Fence) Wrap(inner http.RoundTripper) http.RoundTripper { return &fenced{inner, f} }

type fenced struct {
	http.RoundTripper
	fence *Fence
}

// WrappedRoundTripper lets client-go find the transport.
func (t *fenced) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *fenced) RoundTrip(r *http.Request) (*http.Response, error) {
	f := t.fence
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return t.RoundTripper.RoundTrip(r)
	}
	if !f.renews(r.URL.Path) {
		if f.expired() {
			if r.Body != nil {
				_ = r.Body.Close() // as a RoundTripper must
			}
			return nil, errExpired
		}
		return t.RoundTripper.RoundTrip(r)
	}
	begun := f.clock()
	answer, err := t.RoundTripper.RoundTrip(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = err != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusCreated
	if !f.failed {
		f.renewed = begun
	}
	return answer, err
}

// renews reports whether a write is about the lease. If the lease was deleted, the election creates it again.
func (f *Fence) renews(of string) bool {
	resource, name := path.Split(of)
	return name == f.Lease && path.Base(resource) == "leases" || name == "leases"
}

func (f *Fence) clock() time.Time {
	if f.now != nil {
		return f.now()
	}
	return time.Now()
}

// expired reports whether the lease may have expired. While a machine is suspended, its monotonic clock may stand
// still, so that the time of day counts, too. While a virtual machine is paused, both stand still: it learns from its
// next renewal, which fails, that another process leads.
func (f *Fence) expired() bool {
	f.mu.Lock()
	renewed, failed := f.renewed, f.failed
	f.mu.Unlock()
	if renewed.IsZero() {
		return false
	}
	now := f.clock()
	return failed || max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0))) > f.Valid
}

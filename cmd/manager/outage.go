// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// sayEvery is the shortest time between two lines that say that the API server is unavailable.
const sayEvery = time.Minute

// outage logs when the API server is unavailable, and when it is available again. In between, it hides the errors of
// informers, controllers and the leader election that only repeat this: it logs them at level 2.
//
//	available   -> unavailable   a request gets no answer, or only that of a proxy; or the token is refused
//	unavailable -> available     any other answer
type outage struct {
	log logr.Logger

	mu    sync.Mutex
	since time.Time // zero: available
	said  time.Time // the last line that said so
	told  bool      // the log says that this outage began, so it will say when it ends
}

// watching makes all requests of a transport tell the outage whether the API server answers.
func (o *outage) watching(inner http.RoundTripper) http.RoundTripper { return &watched{inner, o} }

type watched struct {
	http.RoundTripper
	outage *outage
}

// WrappedRoundTripper lets client-go find the transport.
func (w *watched) WrappedRoundTripper() http.RoundTripper { return w.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.RoundTripper.RoundTrip(r)
	switch {
	case errors.Is(r.Context().Err(), context.Canceled): // nothing waits for the answer: it says nothing
	case err != nil:
		w.outage.failed(r.URL.Host, err)
	case unavailable(answer.StatusCode):
		w.outage.failed(r.URL.Host, fmt.Errorf("it answers %s", answer.Status))
	default:
		w.outage.answered(r.URL.Host)
	}
	return answer, err
}

func (o *outage) failed(server string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if o.since.IsZero() {
		o.since = now
	}
	if now.Sub(o.said) < sayEvery {
		return
	}
	o.said, o.told = now, true
	o.log.Error(err, "The API server is unavailable", "server", server,
		"for", now.Sub(o.since).Round(time.Second).String())
}

func (o *outage) answered(server string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told {
		o.log.Info("The API server is available again", "server", server, "after",
			time.Since(o.since).Round(time.Second).String())
	}
	o.since, o.told = time.Time{}, false
}

// unavailable reports whether a status says so: 502, 503, 504, or 401, because without a valid token no request
// succeeds.
func unavailable(status int) bool {
	return http.StatusBadGateway <= status && status <= http.StatusGatewayTimeout || status == http.StatusUnauthorized
}

// repeats reports whether an error only says again that the API server is unavailable.
func (o *outage) repeats(err error) bool {
	var request *url.Error // without an answer
	var status apierrors.APIStatus
	if !errors.As(err, &request) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, context.DeadlineExceeded) &&
		(!errors.As(err, &status) || !unavailable(int(status.Status().Code))) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero()
}

// quiet is a sink of a logger that hides the errors that repeat an outage.
type quiet struct {
	logr.LogSink
	outage *outage
}

func (q quiet) Error(err error, message string, values ...any) {
	if !q.outage.repeats(err) {
		q.LogSink.Error(err, message, values...)
	} else if q.Enabled(2) {
		q.Info(2, message, append(values, "error", err.Error())...)
	}
}

func (q quiet) WithValues(values ...any) logr.LogSink {
	return quiet{q.LogSink.WithValues(values...), q.outage}
}
func (q quiet) WithName(name string) logr.LogSink { return quiet{q.LogSink.WithName(name), q.outage} }

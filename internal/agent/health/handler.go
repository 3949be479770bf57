// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nodegate/nodegate/internal/agent/checks"
)

const (
	// FailOpenHeader names the checks that passed only because they could not decide.
	FailOpenHeader = "Nodegate-Fail-Open"
	// bodyLimit is how long a request with a body may keep its connection. The body is never read.
	bodyLimit = 100 * time.Millisecond
	// maxNames is the maximum number of checks in one request.
	maxNames = 64
	// Pseudo-checks: an answer has them only when they fail.
	nameDraining    = "draining"
	nameMaintenance = "maintenance"
)

// Handler answers requests about the node's health.
type Handler struct {
	// Suite returns the current checks.
	Suite func() *checks.Suite
	// Maintenance returns why the node is in maintenance; empty: it is not.
	Maintenance func() string
	// DrainStatus is the HTTP status while all checks pass, but the node is in maintenance or the agent shuts down.
	DrainStatus int
	// Starting reports whether the agent has just started and cannot judge yet. It then answers like an agent that shuts
	// down, unless DrainStatus is 503, the status of a failure.
	Starting func() bool
	// Configured is closed when the rules of the node are in force, or cannot be known for now. Requests wait for it,
	// because the checks before that are not those of the rules. It takes a second at most. nil: they do not wait.
	Configured <-chan struct{}
	Metrics    *Metrics

	draining atomic.Bool
}

// Drain makes all answers not ready from now on, because the agent shuts down.
func (h *Handler) Drain() { h.draining.Store(true) }

// ServeHTTP answers /health, and / for HAProxy's bare "option httpchk". It never redirects, because a load balancer
// would take that for a healthy node.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code := h.serve(w, r)
	h.Metrics.requests.WithLabelValues(strconv.Itoa(code)).Inc()
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) int {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.ContentLength != 0 {
		header.Set("Connection", "close") // the agent never reads a body, nor waits for it
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyLimit))
	}
	switch r.URL.Path {
	case "/health", "/", "*", "": // OPTIONS * has the path "*"
	default:
		return refuse(w, http.StatusNotFound, "not found: ask for /health")
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		header.Set("Allow", "GET, HEAD, OPTIONS")
		return refuse(w, http.StatusMethodNotAllowed, "use GET, HEAD or OPTIONS")
	}
	var query url.Values
	if r.URL.RawQuery != "" {
		var err error
		if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			return refuse(w, http.StatusBadRequest, "the query cannot be read")
		}
	}
	names, ok := parseNames(query["check"], maxNames)
	if !ok {
		return refuse(w, http.StatusBadRequest, "at most "+strconv.Itoa(maxNames)+" checks can be asked for at once")
	}
	return h.write(w, r, h.Answer(names), query.Get("format") == "text")
}

// Answer runs the named checks, or the default checks without names, and returns the answer.
func (h *Handler) Answer(names []string) *Answer {
	if h.Configured != nil {
		<-h.Configured
	}
	suite := h.Suite()
	if len(names) == 0 {
		names = suite.Defaults()
	}
	a := h.collect(suite, names)
	if why := h.Maintenance(); why != "" {
		a.drain(nameMaintenance, why)
	}
	if h.draining.Load() {
		a.drain(nameDraining, "the agent is shutting down")
	} else if h.DrainStatus != http.StatusServiceUnavailable && h.Starting() {
		a.drain(nameDraining, "the agent has just started and cannot judge yet")
	}
	return a
}

func (h *Handler) write(w http.ResponseWriter, r *http.Request, a *Answer, text bool) int {
	if len(a.open) > 0 {
		w.Header().Set(FailOpenHeader, headerValue(strings.Join(a.open, ",")))
	}
	var body []byte
	if text {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		body = []byte(a.Text() + "\n")
	} else {
		w.Header().Set("Content-Type", "application/json")
		var err error
		if body, err = json.Marshal(a); err != nil { // strings and numbers: cannot happen
			return refuse(w, http.StatusInternalServerError, "the answer cannot be written")
		}
		body = append(body, '\n')
	}
	code := a.Code()
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have disconnected
	}
	return code
}

// refuse answers an invalid request in plain text.
func refuse(w http.ResponseWriter, code int, why string) int {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(why + "\n"))
	return code
}

// headerValue removes characters that are not valid in a header.
func headerValue(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
}

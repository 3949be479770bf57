// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
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
	// FailOpenHeader names the checks that have passed only because they could not judge.
	FailOpenHeader = "Nodegate-Fail-Open"
	// bodyLimit is how long a body, which is never read, may keep its connection.
	bodyLimit = 100 * time.Millisecond
	// maxNames is how many checks one request may ask for.
	maxNames = 64
	// Pseudo-checks: they stand in an answer when they fail.
	nameDraining    = "draining"
	nameMaintenance = "maintenance"
)

// Handler answers requests about the node's health.
type Handler struct {
	// Suite returns the checks there are now.
	Suite func() *checks.Suite
	// Maintenance says why the node is in maintenance; empty while it is not. Nil means never.
	Maintenance func() string
	// DrainStatus is the HTTP status while nothing is wrong but that the node is in maintenance, or its agent starts or
	// ends. 0 means 503.
	DrainStatus int
	// Starting reports whether the agent cannot judge yet, because it has just started. It then answers like one that
	// ends, if DrainStatus says that this differs from a failure. Nil means never.
	Starting func() bool
	// Metrics may be nil.
	Metrics *Metrics

	draining atomic.Bool
}

// Drain makes all answers not ready from now on: the agent is about to end.
func (h *Handler) Drain() { h.draining.Store(true) }

// ServeHTTP answers /health, and / alike, for that is what HAProxy's bare "option httpchk" asks for. Nothing is ever
// redirected: balancers would take that for a healthy node.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code := h.serve(w, r)
	h.Metrics.request(code)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) int {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.ContentLength != 0 {
		header.Set("Connection", "close") // a body is not read, whatever is in it, nor waited for
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
	return h.write(w, r, h.Answer(r.Context(), names), query.Get("format") == "text")
}

// Answer runs the checks, without names the default ones, and says what is to be answered.
func (h *Handler) Answer(ctx context.Context, names []string) *Answer {
	suite := h.Suite()
	if len(names) == 0 {
		names = suite.Defaults()
	}
	a := collect(ctx, suite, names, h.Metrics)
	if h.Maintenance != nil {
		if why := h.Maintenance(); why != "" {
			a.add(nameMaintenance, checks.Outcome{Result: checks.Fail(why)})
		}
	}
	if h.draining.Load() {
		a.add(nameDraining, checks.Outcome{Result: checks.Fail("the agent is about to end")})
	} else if h.DrainStatus != 0 && h.Starting != nil && h.Starting() {
		a.add(nameDraining, checks.Outcome{Result: checks.Fail("the agent has just started and cannot judge yet")})
	}
	a.drainStatus = h.DrainStatus
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
		_, _ = w.Write(body) // who has gone gets no answer
	}
	return code
}

// refuse answers what is not a question about health, in plain text.
func refuse(w http.ResponseWriter, code int, why string) int {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(why + "\n"))
	return code
}

// headerValue drops what may not stand in a header.
func headerValue(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
}

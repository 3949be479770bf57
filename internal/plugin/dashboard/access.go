// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	sessionPath = "/api/session"
	// streamPath is without a limit of time for the whole answer.
	streamPath = "/api/stream"
	apiPrefix  = "/api/"
	maxBody    = 1 << 10
	// answerTime is how long an answer, or one write of the stream, may take.
	answerTime = 30 * time.Second
)

const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// access decides which requests are answered. Other programs of this machine reach the port, and so do pages of other
// sites in the user's browser:
//
//   - A page of another site has a foreign Host (by DNS rebinding), a foreign Origin, or a Sec-Fetch-Site that says so.
//   - A program has no token. The one-time code for it is in the part of the address that browsers do not send.
type access struct {
	hosts []string // the values of Host that are answered
	token string
	next  http.Handler

	mu   sync.Mutex
	code string // empty once it was used
}

func newAccess(port string, next http.Handler) *access {
	return &access{hosts: []string{"127.0.0.1:" + port, "localhost:" + port}, token: rand.Text(), code: rand.Text(),
		next: next}
}

// ServeHTTP implements http.Handler.
func (a *access) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": contentPolicy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	if r.URL.Path != streamPath {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime)) // a recorder has no deadline
	}
	switch {
	case !slices.Contains(a.hosts, r.Host):
		http.Error(w, "the request is for another host", http.StatusForbidden)
	case foreign(r):
		http.Error(w, "the request is from another site", http.StatusForbidden)
	case r.URL.Path == sessionPath && r.Method == http.MethodPost:
		a.session(w, r)
	case r.Method != http.MethodGet || r.URL.Path == sessionPath:
		w.Header().Set("Allow", http.MethodGet)
		if r.URL.Path == sessionPath {
			w.Header().Set("Allow", http.MethodPost)
		}
		http.Error(w, "the method is not allowed", http.StatusMethodNotAllowed)
	case strings.HasPrefix(r.URL.Path, apiPrefix) && !a.authorized(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the request has no valid token", http.StatusUnauthorized)
	default:
		a.next.ServeHTTP(w, r)
	}
}

// foreign reports whether a page of another site sent the request. Old browsers and other programs send neither header.
func foreign(r *http.Request) bool {
	origin, site := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
	own := func(o string) bool { return o == "http://"+r.Host }
	allowed := func(s string) bool { return s == "same-origin" || s == "none" } // none: the user typed the address
	return slices.ContainsFunc(origin, func(o string) bool { return !own(o) }) ||
		slices.ContainsFunc(site, func(s string) bool { return !allowed(s) })
}

func (a *access) authorized(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(token), []byte(a.token)) == 1
}

// session exchanges the code for the token, once.
func (a *access) session(w http.ResponseWriter, r *http.Request) {
	var in struct{ Code string }
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in)
	a.mu.Lock()
	valid := err == nil && a.code != "" && subtle.ConstantTimeCompare([]byte(in.Code), []byte(a.code)) == 1
	if valid {
		a.code = ""
	}
	a.mu.Unlock()
	if !valid {
		http.Error(w, "the code is wrong, or it was used before", http.StatusUnauthorized)
		return
	}
	reply(w, map[string]string{"token": a.token})
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the browser may have gone
}

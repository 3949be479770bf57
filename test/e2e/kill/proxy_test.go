// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// kind is a kind of write of the operator.
type kind string

const (
	nodePatch kind = "node patch"
	event     kind = "event"
	status    kind = "status"
	finalizer kind = "finalizer"
	lease     kind = "lease"
	agents    kind = "agents' configuration"
	read      kind = "" // no write
	// strange is a write that the operator should not make.
	strange kind = "strange write"
)

// kindOf tells the writes apart.
func kindOf(r *http.Request) kind {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return read
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last := path[len(path)-1]
	is := func(methods ...string) bool { return strings.Contains(strings.Join(methods, " "), r.Method) }
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/v1/nodes/") && len(path) == 4 && is(http.MethodPatch):
		return nodePatch
	case strings.Contains(r.URL.Path, "/events") && is(http.MethodPost, http.MethodPatch):
		return event
	case strings.HasPrefix(r.URL.Path, rulesPath) && last == "status" && is(http.MethodPut, http.MethodPatch):
		return status
	case strings.HasPrefix(r.URL.Path, rulesPath) && len(path) == 5 && is(http.MethodPatch):
		return finalizer
	case strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/"):
		return lease
	case r.URL.Path == configPath && is(http.MethodPatch):
		return agents
	}
	return strange
}

const (
	rulesPath  = "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules/"
	configPath = "/api/v1/namespaces/" + leaseNamespace + "/configmaps/nodegate-agent-config"
)

// moment is when a replica is killed: before its write is handed on to the API server, or after that has carried it out
// and before the answer is delivered.
type moment string

const (
	before moment = "before"
	after  moment = "after"
)

// trap kills a replica at its n-th write of a kind.
type trap struct {
	kind   kind
	moment moment
	n      int
}

func (t trap) String() string { return fmt.Sprintf("%s %s %d", t.moment, t.kind, t.n) }

// proxy stands between one replica and the API server.
type proxy struct {
	upstream http.Handler
	// kill ends the replica and returns when it is dead.
	kill func()
	// wrote is told of each write that the API server has accepted.
	wrote func(k kind, r *http.Request)

	mu     sync.Mutex
	armed  *trap
	sprung chan trap // the traps that have killed
	writes map[kind]int
	failed map[string]int // refused writes, by kind and status code
}

// newProxy serves a proxy for a replica on loopback until the test ends, and returns its address.
func newProxy(t *testing.T, target string, transport http.RoundTripper) (*proxy, string) {
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{
		sprung: make(chan trap, 1), writes: map[kind]int{}, failed: map[string]int{},
		kill: func() {}, wrote: func(kind, *http.Request) {},
	}
	p.upstream = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(p)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of aborted requests
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return p, server.URL
}

// ServeHTTP hands a request on, unless a trap springs.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k := kindOf(r)
	if k == read {
		p.upstream.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil { // it was killed while it sent this
		panic(http.ErrAbortHandler)
	}
	if p.springs(k, before) {
		p.kill()
		panic(http.ErrAbortHandler)
	}
	// A write that has been sent reaches the API server, regardless of its sender.
	r = r.WithContext(context.WithoutCancel(r.Context()))
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	p.upstream.ServeHTTP(answer, r)
	if p.count(k, answer.Code) {
		p.wrote(k, r)
		if p.springs(k, after) {
			p.kill()
			panic(http.ErrAbortHandler)
		}
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // a replica that is dead does not read it
}

// count reports whether a write was accepted.
func (p *proxy) count(k kind, code int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if code/100 == 2 {
		p.writes[k]++
		return true
	}
	p.failed[fmt.Sprintf("%s %d", k, code)]++
	return false
}

// arm sets a trap, or with nil takes it away.
func (p *proxy) arm(t *trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t == nil {
		p.armed = nil
		select {
		case <-p.sprung: // at the last moment, and no write has triggered it
		default:
		}
		return
	}
	set := *t
	p.armed = &set
}

// springs counts a write, and reports whether this is the one that is fatal.
func (p *proxy) springs(k kind, m moment) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed == nil || p.armed.kind != k || p.armed.moment != m {
		return false
	}
	if p.armed.n--; p.armed.n > 0 {
		return false
	}
	p.sprung <- *p.armed
	p.armed = nil
	return true
}

func TestProxy(t *testing.T) {
	const path = "/api/v1/nodes/n"
	for name, test := range map[string]struct {
		trap    trap
		refuse  bool
		arrived int // requests that reach the API server, of three
		dies    int // at which request the replica dies; 0: at none
	}{
		"kills before the second write, which is never carried out": {trap: trap{nodePatch, before, 2}, arrived: 1, dies: 2},
		"kills after the second write, which is carried out":        {trap: trap{nodePatch, after, 2}, arrived: 2, dies: 2},
		"does not count a refused write as carried out": {trap: trap{nodePatch, after, 1}, refuse: true,
			arrived: 3},
		"leaves other writes alone": {trap: trap{status, before, 1}, arrived: 3},
	} {
		t.Run(name, func(t *testing.T) {
			var arrived atomic.Int32
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != "body" {
					t.Errorf("the API server got %q, %v", body, err)
				}
				arrived.Add(1)
				if test.refuse {
					w.WriteHeader(http.StatusUnprocessableEntity)
				}
				_, _ = io.WriteString(w, "answer")
			}))
			defer api.Close()
			p, address := newProxy(t, api.URL, http.DefaultTransport)
			var dead atomic.Bool
			p.kill = func() { dead.Store(true) }
			p.arm(&test.trap)
			died := 0
			for i := 1; i <= 3 && !dead.Load(); i++ {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, address+path, strings.NewReader("body"))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					died = i
					continue
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || string(body) != "answer" {
					t.Errorf("answer %q, %v", body, err)
				}
			}
			if int(arrived.Load()) != test.arrived || died != test.dies || dead.Load() != (test.dies > 0) {
				t.Errorf("%d requests arrived, the replica died at %d (%v); want %d and %d", arrived.Load(), died, dead.Load(),
					test.arrived, test.dies)
			}
		})
	}
	t.Run("tells the kinds of write apart", func(t *testing.T) {
		for request, want := range map[string]kind{
			"GET /api/v1/nodes/n":   read,
			"PATCH /api/v1/nodes/n": nodePatch,
			"PUT /api/v1/nodes/n":   strange, "PATCH /api/v1/nodes/n/status": strange, "DELETE /api/v1/nodes/n": strange,
			"POST /apis/events.k8s.io/v1/namespaces/default/events":    event,
			"PATCH /apis/events.k8s.io/v1/namespaces/default/events/e": event,
			"POST /api/v1/namespaces/default/events":                   event,
			"PUT " + rulesPath + "r/status":                            status,
			"PATCH " + configPath:                                      agents, "DELETE " + configPath: strange,
			"PATCH /api/v1/namespaces/default/configmaps/x": strange,
			"PATCH " + rulesPath + "r":                      finalizer, "PUT " + rulesPath + "r": strange,
			"PUT /apis/coordination.k8s.io/v1/namespaces/x/leases/l": lease,
			"POST /apis/coordination.k8s.io/v1/namespaces/x/leases":  lease,
		} {
			method, path, _ := strings.Cut(request, " ")
			if got := kindOf(httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)); got != want {
				t.Errorf("%s: %q, want %q", request, got, want)
			}
		}
	})
	t.Run("hands on what a watch says at once", func(t *testing.T) {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "x")
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			<-r.Context().Done()
		}))
		defer api.Close()
		_, address := newProxy(t, api.URL, http.DefaultTransport)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/api/v1/nodes?watch=1", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
			t.Error(err)
		}
	})
}

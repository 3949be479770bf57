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
	"testing"

	"github.com/nodegate/nodegate/test/cluster"
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
	admission kind = "rules for admission"
	read      kind = "" // no write
	// strange is a write that the operator should not make.
	strange kind = "strange write"
)

const (
	rulesPath  = "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules/"
	configPath = "/api/v1/namespaces/" + leaseNamespace + "/configmaps/nodegate-agent-config"
	listsPath  = "/apis/nodegate.io/v1alpha1/admissionrules"
)

// kindOf returns the kind of a request.
func kindOf(r *http.Request) kind {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return read
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	is := func(methods ...string) bool { return strings.Contains(strings.Join(methods, " "), r.Method) }
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/v1/nodes/") && len(path) == 4 && is(http.MethodPatch):
		return nodePatch
	case strings.Contains(r.URL.Path, "/events") && is(http.MethodPost, http.MethodPatch):
		return event
	case strings.HasPrefix(r.URL.Path, rulesPath) && path[len(path)-1] == "status" && is(http.MethodPut, http.MethodPatch):
		return status
	case strings.HasPrefix(r.URL.Path, rulesPath) && len(path) == 5 && is(http.MethodPatch):
		return finalizer
	case strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/"):
		return lease
	case r.URL.Path == configPath && is(http.MethodPatch):
		return agents
	case r.URL.Path == listsPath && is(http.MethodPost), r.URL.Path == listsPath+"/nodegate" && is(http.MethodPut):
		return admission
	}
	return strange
}

func TestKindsOfWrites(t *testing.T) {
	for request, want := range map[string]kind{
		"GET /api/v1/nodes/n":   read,
		"PATCH /api/v1/nodes/n": nodePatch,
		"PUT /api/v1/nodes/n":   strange, "PATCH /api/v1/nodes/n/status": strange, "DELETE /api/v1/nodes/n": strange,
		"POST /apis/events.k8s.io/v1/namespaces/default/events":    event,
		"PATCH /apis/events.k8s.io/v1/namespaces/default/events/e": event,
		"PUT " + rulesPath + "r/status":                            status,
		"PATCH " + configPath:                                      agents, "DELETE " + configPath: strange,
		"PATCH /api/v1/namespaces/default/configmaps/x": strange,
		"PATCH " + rulesPath + "r":                      finalizer, "PUT " + rulesPath + "r": strange,
		"PUT /apis/coordination.k8s.io/v1/namespaces/x/leases/l": lease,
		"POST " + listsPath: admission, "PUT " + listsPath + "/nodegate": admission,
		"DELETE " + listsPath + "/nodegate": strange, "PUT " + listsPath + "/x": strange,
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := kindOf(httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)); got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
}

// trap kills a replica at its n-th write of a kind: before the API server gets the write, or after it has carried the
// write out and before the replica gets the answer.
type trap struct {
	kind  kind
	after bool
	n     int
}

func (t trap) String() string {
	when := "before"
	if t.after {
		when = "after"
	}
	return fmt.Sprintf("killed %s write %d: %s", when, t.n, t.kind)
}

// proxy stands between one replica and the API server.
type proxy struct {
	upstream http.Handler
	kill     func()
	// wrote is called for each write that the API server has accepted.
	wrote func(k kind, r *http.Request)
	// writing is locked while no write is on its way.
	writing sync.RWMutex

	mu    sync.Mutex
	armed *trap
}

// newProxy serves a proxy on loopback until the test ends, and returns its address.
func newProxy(t *testing.T, target string, transport http.RoundTripper) (*proxy, string) {
	t.Helper()
	to, err := url.Parse(target)
	cluster.Must(t, err)
	p := &proxy{upstream: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
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
	p.writing.RLock()
	defer p.writing.RUnlock()
	body, err := io.ReadAll(r.Body)
	if err != nil { // the replica was killed while it sent this
		panic(http.ErrAbortHandler)
	}
	if p.springs(k, false) {
		p.kill()
		panic(http.ErrAbortHandler)
	}
	// A write that has been sent reaches the API server, even if its sender is dead.
	r = r.WithContext(context.WithoutCancel(r.Context()))
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	p.upstream.ServeHTTP(answer, r)
	if answer.Code/100 == 2 {
		p.wrote(k, r)
		if p.springs(k, true) {
			p.kill()
			panic(http.ErrAbortHandler)
		}
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // a replica that is dead does not read it
}

// settle waits until the API server has answered each write.
func (p *proxy) settle() {
	p.writing.Lock()
	defer p.writing.Unlock()
}

// arm sets a trap, or with nil takes it away.
func (p *proxy) arm(t *trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = nil
	if t != nil {
		p.armed = new(*t)
	}
}

// springs counts a write, and reports whether this one is fatal.
func (p *proxy) springs(k kind, after bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed == nil || p.armed.kind != k || p.armed.after != after {
		return false
	}
	p.armed.n--
	return p.armed.n == 0
}

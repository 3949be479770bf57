// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodewatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/test/build"
)

// api plays an API server, in memory: with a real connection the time of a test's bubble would stand still.
type api struct {
	mu       sync.Mutex
	node     *corev1.Node     // nil: there is none
	errs     map[string]error // by verb: what it answers instead; errHangs for nothing at all
	requests []string
	times    []time.Time
	stream   *io.PipeWriter // of the watch that is under way
}

// tooMany is how many requests the server answers: a loop without a pause would keep the time of a test's bubble still.
const tooMany = 20000

var (
	errHangs     = errors.New("it hangs")
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", errors.New("no right"))
	errRefused   = errors.New("connect: connection refused")
)

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	verb := "get"
	switch {
	case r.URL.Query().Get("watch") != "":
		verb = "watch from " + r.URL.Query().Get("resourceVersion")
	case strings.HasSuffix(r.URL.Path, "/nodes"):
		verb = "list"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests, a.times = append(a.requests, verb), append(a.times, time.Now())
	verb, _, _ = strings.Cut(verb, " ")
	var status apierrors.APIStatus
	switch err := a.errs[verb]; {
	case errors.Is(err, errHangs), len(a.requests) > tooMany:
		a.mu.Unlock()
		<-r.Context().Done()
		a.mu.Lock()
		return nil, r.Context().Err()
	case errors.As(err, &status):
		return response(int(status.Status().Code), new(status.Status())), nil
	case err != nil:
		return nil, err
	}
	switch {
	case verb == "watch":
		body, stream := io.Pipe()
		a.stream = stream
		context.AfterFunc(r.Context(), func() { _ = body.CloseWithError(r.Context().Err()) })
		return &http.Response{StatusCode: http.StatusOK, Header: asJSON, Body: body}, nil
	case verb == "list":
		list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
		list.ResourceVersion = "100"
		if a.node != nil {
			list.Items = append(list.Items, *a.node)
		}
		return response(http.StatusOK, list), nil
	case a.node == nil:
		return response(http.StatusNotFound, new(apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"},
			"n").Status())), nil
	}
	return response(http.StatusOK, a.node), nil
}

var asJSON = http.Header{"Content-Type": {"application/json"}}

func response(code int, o any) *http.Response {
	if s, ok := o.(*metav1.Status); ok {
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return &http.Response{StatusCode: code, Header: asJSON, Body: io.NopCloser(bytes.NewReader(raw))}
}

// set changes what the server does. Watches are told with event.
func (a *api) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// event tells the watch that is under way.
func (a *api) event(t *testing.T, kind string, o any) {
	t.Helper()
	a.mu.Lock()
	stream := a.stream
	a.mu.Unlock()
	raw, err := json.Marshal(map[string]any{"type": kind, "object": o})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Write(raw); err != nil {
		t.Fatal(err)
	}
}

// endWatch ends the watch that is under way: in order, or with the loss of the connection.
func (a *api) endWatch(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.stream.CloseWithError(err)
}

// asked are the requests since it was called last.
func (a *api) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.requests
	a.requests, a.times = nil, nil
	return r
}

func (a *api) connect() (*Client, error) {
	config := &rest.Config{
		Host: "http://api", APIPath: "/api", QPS: -1,
		ContentConfig: rest.ContentConfig{GroupVersion: &schema.GroupVersion{Version: "v1"},
			NegotiatedSerializer: codecs.WithoutConversion()},
	}
	client := &Client{transport: &http.Transport{}}
	return client, client.connect(config, a)
}

// node is the node in some version, ready or not.
func node(version string, ready corev1.ConditionStatus) *corev1.Node {
	n := build.MakeNode("n").UID("u").Condition("Ready", ready, time.Unix(1, 0)).Obj()
	n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	n.ResourceVersion = version
	return n
}

// memory is a log that remembers.
type memory struct {
	slog.Handler
	mu      sync.Mutex
	entries []slog.Record
}

func (m *memory) Enabled(context.Context, slog.Level) bool { return true }

func (m *memory) Handle(_ context.Context, r slog.Record) error { //nolint:gocritic // slog's own signature
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = append(m.entries, r)
	return nil
}

// take returns what was logged since it was called last.
func (m *memory) take() []slog.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries
	m.entries = nil
	return e
}

// start runs a watcher until the test ends.
func start(t *testing.T, o Options, onChange ...func()) (*Watcher, *memory) {
	t.Helper()
	log := &memory{}
	o.Name, o.Log = "n", slog.New(log)
	w := New(o)
	for _, f := range onChange {
		w.OnChange(f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w, log
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodegate/nodegate/test/cluster"
)

// stuck answers when the test ends.
type stuck struct {
	atOnce  int64
	running *semaphore.Weighted
	release chan struct{}
}

func (*stuck) Path() string    { return "/stuck" }
func (s *stuck) AtOnce() int64 { return s.atOnce }

func (s *stuck) Handle(context.Context, admission.Request) admission.Response {
	if !s.running.TryAcquire(1) {
		panic("more reviews than AtOnce run")
	}
	defer s.running.Release(1)
	<-s.release
	return admission.Allowed("")
}

func post(h http.Handler, path string, change ...func(*http.Request)) int {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(reviewOf(`{}`)))
	r.Header.Set("Content-Type", asJSON)
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func with(body string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
}

func TestRequestsThatTheServerRefuses(t *testing.T) {
	h := serve(t)
	before := testutil.ToFloat64(refused)
	want := 0.0
	for name, c := range map[string]struct {
		change func(*http.Request)
		code   int
	}{
		"a review":           {func(*http.Request) {}, http.StatusOK},
		"values in a string": {with(reviewOf(`"` + strings.Repeat(`,\"{`, valuesInFlight) + `"`)), http.StatusOK},
		"a GET":              {func(r *http.Request) { r.Method = http.MethodGet }, http.StatusBadRequest},
		"of another content type": {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
			http.StatusBadRequest},
		"of unknown length":      {func(r *http.Request) { r.ContentLength = -1 }, http.StatusBadRequest},
		"shorter than announced": {func(r *http.Request) { r.ContentLength++ }, http.StatusRequestTimeout},
		"too large": {func(r *http.Request) { r.ContentLength = maxBody + 1 },
			http.StatusRequestEntityTooLarge},
		"empty": {with(""), http.StatusBadRequest},
		"YAML":  {with("request:\n  uid: u\n"), http.StatusBadRequest},
		"of too many objects": {with(reviewOf(`{"a":[` + strings.Repeat("{},", valuesInFlight) + `{}]}`)),
			http.StatusBadRequest},
		"of too many lists": {with(reviewOf(`{"a":` + strings.Repeat("[", valuesInFlight) + `}`)), http.StatusBadRequest},
	} {
		if got := post(h, "/echo", c.change); got != c.code {
			t.Errorf("%s: %d, want %d", name, got, c.code)
		}
		if c.code != http.StatusOK {
			want++
		}
	}
	if got := testutil.ToFloat64(refused) - before; got != want {
		t.Errorf("%v refusals are counted, want %v", got, want)
	}
}

func TestReviewsWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{atOnce: 4, running: semaphore.NewWeighted(4), release: make(chan struct{})}
		h, err := (&Server{Handlers: []Handler{s, echo{}}}).handler()
		if err != nil {
			t.Fatal(err)
		}
		codes := make(chan int, 10)
		var all sync.WaitGroup
		for range cap(codes) {
			all.Go(func() { codes <- post(h, s.Path()) })
		}
		time.Sleep(roomWithin)
		synctest.Wait()
		for range 6 {
			if got := <-codes; got != http.StatusServiceUnavailable {
				t.Errorf("%d for a review that has no room", got)
			}
		}
		if got := post(h, "/echo"); got != http.StatusOK {
			t.Errorf("%d for a review of another handler", got)
		}
		close(s.release)
		all.Wait()
		for range 4 {
			if got := <-codes; got != http.StatusOK {
				t.Errorf("%d for a review that had room", got)
			}
		}
	})
}

func TestReviewsShareTheirMemory(t *testing.T) {
	for name, body := range map[string]string{
		"bytes":  reviewOf(`"` + strings.Repeat("x", maxBody-1000) + `"`),
		"values": reviewOf(`[` + strings.Repeat("{},", valuesInFlight/4) + `{}]`),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &stuck{atOnce: 100, running: semaphore.NewWeighted(4), release: make(chan struct{})}
			h, err := (&Server{Handlers: []Handler{s}}).handler()
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { post(h, s.Path(), with(body)) })
			}
			time.Sleep(2 * roomWithin)
			if panicked := testutil.ToFloat64(failed.WithLabelValues(s.Path())); panicked != 0 {
				t.Errorf("%s: %v reviews more than there is room for", name, panicked)
			}
			close(s.release)
			all.Wait()
		})
	}
}

// TestIdleClientsDoNotLockOutTheAPIServer has as many idle connections as the server accepts, and then a review.
func TestIdleClientsDoNotLockOutTheAPIServer(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	defer certified.Close()
	address, err := cluster.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Address: address, Handlers: []Handler{echo{}},
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certified.TLS.Certificates[0], nil }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	review := func() error {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport, Timeout: 4 * time.Second}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/echo",
			strings.NewReader(reviewOf(`{}`)))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", asJSON)
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body) // the connection is idle now
		return errors.Join(err, answer.Body.Close())
	}
	for review() != nil { // until it serves
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	for i := range maxConnections + 10 {
		if err := review(); err != nil {
			t.Fatalf("after %d idle connections: %v", i, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

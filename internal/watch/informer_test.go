// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/nodegate/nodegate/test/cluster"
)

// long is for what comes soon or not at all.
const long = time.Minute

// freeAddress is an address of the loopback interface without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := cluster.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// serve answers at the address.
func serve(t *testing.T, address string, handler http.HandlerFunc) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler, ReadHeaderTimeout: long}}
	server.Start()
	t.Cleanup(server.Close)
}

func nodesAt(t *testing.T, address string) cache.ListerWatcher {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	return cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "nodes", "", fields.Everything())
}

// counted counts the attempts.
func counted(lw cache.ListerWatcher, attempts *atomic.Int32) cache.ListerWatcher {
	inner := cache.ToListerWatcherWithContext(lw)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (out runtime.Object, err error) {
			attempts.Add(1)
			return inner.ListWithContext(ctx, options)
		},
		WatchFuncWithContext: inner.WatchWithContext,
	}
}

func TestWaitsForAServerThatIsAway(t *testing.T) {
	address := freeAddress(t)
	var attempts atomic.Int32
	type result struct {
		list runtime.Object
		err  error
	}
	done := make(chan result, 1)
	go func() {
		list, err := Patient(counted(nodesAt(t, address), &attempts)).ListWithContext(t.Context(), metav1.ListOptions{})
		done <- result{list, err}
	}()
	for deadline := time.Now().Add(long); attempts.Load() < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not try again")
		}
	}
	select {
	case r := <-done:
		t.Fatalf("it gave up: %v, %v", r.list, r.err)
	default:
	}
	serve(t, address, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n-1"}}]}`))
	})
	select {
	case r := <-done:
		if r.err != nil {
			t.Fatal(r.err)
		}
		if nodes, ok := r.list.(*corev1.NodeList); !ok || len(nodes.Items) != 1 {
			t.Fatalf("got %v, want the one node", r.list)
		}
	case <-time.After(long):
		t.Fatal("it does not notice that the server is back")
	}
}

func TestGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := Patient(nodesAt(t, freeAddress(t))).WatchWithContext(ctx, metav1.ListOptions{})
	if err == nil {
		t.Fatal("watches without a server")
	}
}

func TestHandsOnWhatTheServerSays(t *testing.T) {
	address := freeAddress(t)
	var asked atomic.Int32
	serve(t, address, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "no", http.StatusForbidden)
	})
	_, err := Patient(nodesAt(t, address)).WatchWithContext(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want that it is forbidden", err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
}

func TestAway(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no listener":                {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		"a load balancer says so":    {apierrors.NewServiceUnavailable("no backend"), true},
		"a load balancer hangs up":   {&url.Error{Op: "Get", URL: "https://lb", Err: io.EOF}, true},
		"the kind is not served yet": {apierrors.NewNotFound(corev1.Resource("nodes"), ""), false},
		"the version is too old":     {apierrors.NewResourceExpired("too old"), false},
		"the client ends":            {context.Canceled, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := away(tc.err); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

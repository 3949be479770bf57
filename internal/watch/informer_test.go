// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

var errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

func TestPatient(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("nodes"), "", nil)
	for name, tc := range map[string]struct {
		answers     []error // the last one is repeated
		want        error
		least, most int // requests
	}{
		"waits for a server that is away":    {[]error{errRefused, errRefused, errRefused, nil}, nil, 4, 4},
		"returns what the server says":       {[]error{forbidden}, forbidden, 1, 1},
		"also after it was away":             {[]error{errRefused, forbidden}, forbidden, 2, 2},
		"every second or two, until it ends": {[]error{errRefused}, errRefused, 11, 21},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				answer := func() error {
					asked++
					return tc.answers[min(asked, len(tc.answers))-1]
				}
				lw := Patient(&cache.ListWatch{
					ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
						return &corev1.NodeList{}, answer()
					},
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
						return watch.NewEmptyWatch(), answer()
					},
				})
				for _, ask := range []func(context.Context) error{
					func(ctx context.Context) error { _, err := lw.ListWithContext(ctx, metav1.ListOptions{}); return err },
					func(ctx context.Context) error { _, err := lw.WatchWithContext(ctx, metav1.ListOptions{}); return err },
				} {
					asked = 0
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					if err := ask(ctx); !errors.Is(err, tc.want) || asked < tc.least || asked > tc.most {
						t.Errorf("asked %d times, %v", asked, err)
					}
					cancel()
				}
			})
		})
	}
}

// A first list of any age could lack what the process before this one has written and counted, such as its claims.
func TestPatientListsAreConsistent(t *testing.T) {
	for asked, want := range map[string]string{"0": "", "": "", "7": "7"} {
		lw := Patient(&cache.ListWatch{
			ListWithContextFunc: func(_ context.Context, got metav1.ListOptions) (runtime.Object, error) {
				if got.ResourceVersion != want || got.Limit != 500 {
					t.Errorf("resource version %q is asked for as %q, with the limit %d", asked, got.ResourceVersion, got.Limit)
				}
				return &corev1.NodeList{}, nil
			},
		})
		if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: asked, Limit: 500}); err != nil {
			t.Error(err)
		}
	}
}

func TestAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	_, refused := net.Dial("tcp", l.Addr().String())
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no listener":                {&url.Error{Op: "Get", URL: "https://lb", Err: refused}, true},
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

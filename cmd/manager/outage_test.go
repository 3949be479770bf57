// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAnOutageIsToldOnce makes a request every second for five minutes, and logs each error, as many informers do.
func TestAnOutageIsToldOnce(t *testing.T) {
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		answer                 func(second int) (status int, err error)
		unavailable, back, say int
	}{
		"no outage": {answer: func(int) (int, error) { return http.StatusOK, nil }},
		"refused for 45 seconds": {answer: func(s int) (int, error) {
			if s < 45 {
				return 0, refused
			}
			return http.StatusOK, nil
		}, unavailable: 1, back: 1},
		"a proxy answers for two minutes": {answer: func(s int) (int, error) {
			if s < 120 {
				return http.StatusBadGateway, nil
			}
			return http.StatusOK, nil
		}, unavailable: 2, back: 1},
		"every second request fails": {answer: func(s int) (int, error) {
			if s%2 == 0 {
				return 0, refused
			}
			return http.StatusOK, nil
		}, unavailable: 5, back: 5},
		"the token is refused": {answer: func(int) (int, error) { return http.StatusUnauthorized, nil },
			unavailable: 5},
		"the operator lacks a permission": {answer: func(int) (int, error) { return http.StatusForbidden, nil }, say: 300},
		"nothing waits for an answer":     {answer: func(int) (int, error) { return 0, context.Canceled }, say: 300},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &bytes.Buffer{}
				o := &options{}
				o.logging.DestWriter = out
				logger := o.newLogger()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				config := &rest.Config{Host: "http://api"}
				second := 0
				answered := false
				config.Wrap(func(http.RoundTripper) http.RoundTripper {
					return roundTripper(func(*http.Request) (*http.Response, error) {
						status, err := c.answer(second)
						if errors.Is(err, context.Canceled) {
							cancel()
						}
						answered = status == http.StatusOK
						return &http.Response{StatusCode: status, Body: http.NoBody, Status: fmt.Sprint(status)}, err
					})
				})
				config.Wrap(o.outage.watching)
				config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{Version: "v1"}, nil
				clients := kubernetes.NewForConfigOrDie(config)
				for ; second < 300; second++ {
					_, err := clients.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
					if !answered {
						logger.WithName("x").WithValues("a", "b").Error(fmt.Errorf("reading: %w", err), "Cannot read")
					}
					time.Sleep(time.Second)
				}
				for text, want := range map[string]int{"is unavailable": c.unavailable, "available again": c.back,
					"Cannot read": c.say} {
					if got := strings.Count(out.String(), text); got != want {
						t.Errorf("%d lines say %q, want %d", got, text, want)
					}
				}
			})
		})
	}
}

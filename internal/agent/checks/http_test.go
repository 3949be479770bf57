// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

func actionFor(t *testing.T, server *httptest.Server) *v1alpha1.HTTPGetAction {
	t.Helper()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.HTTPGetAction{Port: int32(port)}
}

func TestHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/header":
			if r.Header.Get("X-Token") != "a b" || r.Host != "router.example" || r.URL.Query().Get("verbose") != "1" {
				w.WriteHeader(http.StatusForbidden)
			}
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	run := func(change func(*v1alpha1.HTTPGetAction)) Result {
		t.Helper()
		a := actionFor(t, server)
		change(a)
		c, err := HTTP("http:test", a, Environment{}.Dialer())
		if err != nil {
			t.Fatal(err)
		}
		return c.Run(t.Context())
	}
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.HTTPGetAction)
		want   Result
	}{
		{"2xx by default", func(*v1alpha1.HTTPGetAction) {}, Pass()},
		{"another status", func(a *v1alpha1.HTTPGetAction) { a.Path = "/broken" }, Fail("HTTP status 500")},
		{"a redirect is not followed", func(a *v1alpha1.HTTPGetAction) { a.Path = "/redirect" }, Fail("HTTP status 302")},
		{"expected statuses", func(a *v1alpha1.HTTPGetAction) {
			a.Path, a.ExpectedStatuses = "/redirect",
				[]string{"200", "3xx"}
		}, Pass()},
		{"headers, Host among them, and a query", func(a *v1alpha1.HTTPGetAction) {
			a.Path = "/header?verbose=1"
			a.Headers = []v1alpha1.HTTPHeader{{Name: "x-token", Value: "a b"}, {Name: "Host", Value: "router.example"}}
		}, Pass()},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, run(c.change)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("no server listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		port := l.Addr().(*net.TCPAddr).Port //nolint:errcheck // it is one
		r := run(func(a *v1alpha1.HTTPGetAction) { a.Port = int32(port) })
		if diff := cmp.Diff(Fail("connect: connection refused"), r); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestHTTPVerifiesCertificates(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	a := actionFor(t, server)
	a.Scheme = "HTTPS"
	for _, skip := range []bool{false, true} {
		a.InsecureSkipVerify = skip
		c, err := HTTP("http:test", a, Environment{}.Dialer())
		if err != nil {
			t.Fatal(err)
		}
		if r := c.Run(t.Context()); r.Passed != skip {
			t.Errorf("insecureSkipVerify %t: %+v", skip, r)
		}
	}
}

func TestHTTPTimesOut(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }))
	defer server.Close()
	defer close(gone)
	c, err := HTTP("http:test", actionFor(t, server), Environment{}.Dialer())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	if diff := cmp.Diff(Fail("timed out"), c.Run(ctx)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParseStatuses(t *testing.T) {
	for _, bad := range []string{"", "2", "20x", "600", "099", "300-200", "200-", "-200", "2xx-3xx"} {
		if s, err := parseStatuses([]string{bad}); err == nil {
			t.Errorf("%q is accepted as %v", bad, s)
		}
	}
	s, err := parseStatuses([]string{"200-204", "401", "5xx"})
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[int]bool{199: false, 200: true, 204: true, 205: false, 401: true, 402: false, 499: false,
		500: true, 599: true} {
		if s.contains(code) != want {
			t.Errorf("%d: got %t", code, !want)
		}
	}
}

func TestTheRouterAndKubeletAreWhereTheyAlwaysAre(t *testing.T) {
	if actionURL(okdRouter) != "http://127.0.0.1:1936/healthz/ready" || OKDRouter().Timeout.String() != "5s" {
		t.Error("okd_router_1936 is not the seed's")
	}
	if actionURL(kubelet) != "http://127.0.0.1:10248/healthz" {
		t.Error("kubelet's port is another one")
	}
}

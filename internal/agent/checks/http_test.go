// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

func portOf(server *httptest.Server) int32 {
	return int32(server.Listener.Addr().(*net.TCPAddr).Port) //nolint:errcheck // it is one
}

func runHTTP(ctx context.Context, t *testing.T, a *v1alpha1.HTTPGetAction) Result {
	t.Helper()
	c, err := HTTP("http:test", a, Environment{}.Dialer())
	must(t, err)
	return c.Run(ctx)
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
	port := portOf(server)
	for _, c := range []struct {
		name   string
		action v1alpha1.HTTPGetAction
		want   Result
	}{
		{"2xx by default", v1alpha1.HTTPGetAction{}, Pass()},
		{"another status", v1alpha1.HTTPGetAction{Path: "/broken"}, Fail("HTTP status 500")},
		{"a redirect is not followed", v1alpha1.HTTPGetAction{Path: "/redirect"}, Fail("HTTP status 302")},
		{"expected statuses", v1alpha1.HTTPGetAction{Path: "/redirect", ExpectedStatuses: []string{"200", "3xx"}}, Pass()},
		{"headers, Host among them, and a query", v1alpha1.HTTPGetAction{Path: "/header?verbose=1",
			HTTPHeaders: []v1alpha1.HTTPHeader{
				{Name: "x-token", Value: "a b"}, {Name: "Host", Value: "router.example"}}}, Pass()},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.action.Port = port
			if diff := cmp.Diff(c.want, runHTTP(t.Context(), t, &c.action)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for path, want := range map[string]string{
		"/a%2Fb?c=%20": "/a%2Fb?c=%20", "/a b": "/a%20b", "//a": "//a", "/100%": "/100%25", "": "/",
	} {
		asked := ""
		server.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.RequestURI })
		runHTTP(t.Context(), t, &v1alpha1.HTTPGetAction{Port: port, Path: path})
		if asked != want {
			t.Errorf("%s: asked for %s", path, asked)
		}
	}
	server.Close()
	gone := runHTTP(t.Context(), t, &v1alpha1.HTTPGetAction{Port: port})
	if diff := cmp.Diff(Fail(fmt.Sprintf("127.0.0.1:%d: connect: connection refused", port)), gone); diff != "" {
		t.Errorf("no server listens: -want +got:\n%s", diff)
	}
}

func TestHTTPVerifiesCertificates(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for _, skip := range []bool{false, true} {
		a := &v1alpha1.HTTPGetAction{Port: portOf(server), Scheme: "HTTPS", InsecureSkipVerify: skip}
		if r := runHTTP(t.Context(), t, a); r.Passed != skip {
			t.Errorf("insecureSkipVerify %t: %+v", skip, r)
		}
	}
}

func TestHTTPTimesOut(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }))
	defer server.Close()
	defer close(gone)
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	want := Fail(server.Listener.Addr().String() + ": timed out")
	if diff := cmp.Diff(want, runHTTP(ctx, t, &v1alpha1.HTTPGetAction{Port: portOf(server)})); diff != "" {
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
	must(t, err)
	for code, want := range map[int]bool{199: false, 200: true, 204: true, 205: false, 401: true, 402: false, 499: false,
		500: true, 599: true} {
		if s.contains(code) != want {
			t.Errorf("%d: got %t", code, !want)
		}
	}
}

func TestTheRouterAndKubeletAreWhereTheyAlwaysAre(t *testing.T) {
	if actionURL(okdRouter).String() != "http://127.0.0.1:1936/healthz/ready" || OKDRouter().Timeout.String() != "5s" {
		t.Error("okd_router_1936 is not the seed's")
	}
	if actionURL(kubelet).String() != "http://127.0.0.1:10248/healthz" {
		t.Error("kubelet's port is another one")
	}
}

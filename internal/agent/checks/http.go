// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// OKDRouter passes when OpenShift's router on this node answers 2xx on port 1936. Its time limit is 5 s by default.
func OKDRouter() Check {
	c := local(NameOKDRouter, okdRouter)
	c.Timeout = 5 * time.Second
	return c
}

// Kubelet passes when kubelet's own /healthz on 127.0.0.1:10248 answers 2xx.
func Kubelet() Check { return local(NameKubelet, kubelet) }

var (
	okdRouter = &v1alpha1.HTTPGetAction{Port: 1936, Path: "/healthz/ready"}
	kubelet   = &v1alpha1.HTTPGetAction{Port: 10248, Path: "/healthz"}
)

func local(name string, a *v1alpha1.HTTPGetAction) Check {
	c, _ := HTTP(name, a, Environment{}.Dialer()) // fails only for invalid expected statuses
	return c
}

// HTTP passes when the request is answered with an expected status.
func HTTP(name string, a *v1alpha1.HTTPGetAction, dialer *net.Dialer) (Check, error) {
	expected, err := parseStatuses(a.ExpectedStatuses)
	if err != nil {
		return Check{}, err
	}
	target := actionURL(a).String()
	client := newHTTPClient(&tls.Config{
		InsecureSkipVerify: a.InsecureSkipVerify, //nolint:gosec // by the user's request; the kubelet's probes always do
		ServerName:         a.ServerName,
	}, dialer)
	header := http.Header{}
	for _, h := range a.HTTPHeaders {
		header.Add(h.Name, h.Value)
	}
	return Check{Name: name, Run: func(ctx context.Context) Result {
		code, err := get(ctx, client, target, header)
		if err != nil {
			return Fail(Address(a.Host, a.Port) + ": " + DialReason(err))
		}
		if !expected.contains(code) {
			return Fail(fmt.Sprintf("HTTP status %d", code))
		}
		return Pass()
	}}, nil
}

// actionURL returns the URL of a request. Like the kubelet, it takes an encoded path as it is.
func actionURL(a *v1alpha1.HTTPGetAction) *url.URL {
	u, err := url.ParseRequestURI(cmp.Or(a.Path, "/"))
	if err != nil { // such as a percent sign that encodes nothing
		u = &url.URL{Path: a.Path}
	}
	u.Scheme, u.Host = cmp.Or(strings.ToLower(a.Scheme), "http"), Address(a.Host, a.Port)
	return u
}

// Address returns the address of an action. Without a host, it is on the node itself.
func Address(host string, port int32) string {
	return net.JoinHostPort(cmp.Or(host, "127.0.0.1"), strconv.Itoa(int(port)))
}

// statuses are ranges of HTTP status codes that mean success.
type statuses [][2]int

// parseStatuses reads codes ("204"), classes ("2xx") and ranges ("200-299"). None means 2xx.
func parseStatuses(in []string) (statuses, error) {
	if len(in) == 0 {
		in = []string{"2xx"}
	}
	var out statuses
	for _, s := range in {
		from, to, isRange := strings.Cut(s, "-")
		if !isRange {
			to = s
		}
		if class, ok := strings.CutSuffix(s, "xx"); ok {
			from, to = class+"00", class+"99"
		}
		low, err1 := strconv.Atoi(from)
		high, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || low < 100 || high > 599 || low > high {
			return nil, fmt.Errorf("expected status %q: want a code (204), a class (2xx) or a range (200-299)", s)
		}
		out = append(out, [2]int{low, high})
	}
	return out, nil
}

func (s statuses) contains(code int) bool {
	return slices.ContainsFunc(s, func(r [2]int) bool { return r[0] <= code && code <= r[1] })
}

// newHTTPClient returns a client without proxy and redirects. It keeps no connections: each check opens a new one.
func newHTTPClient(tlsConfig *tls.Config, dialer *net.Dialer) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: tlsConfig, DialContext: dialer.DialContext,
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func get(ctx context.Context, client *http.Client, target string, header http.Header) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("User-Agent", "nodegate-agent")
	maps.Copy(req.Header, header)
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the server can send a small answer
	return resp.StatusCode, resp.Body.Close()
}

// DialReason returns a short reason why there was no answer.
func DialReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err) {
		return "timed out"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err.Error()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return err.Error()
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	testPort = "4321"
	testHost = "127.0.0.1:" + testPort
)

// headers are those of a request.
type headers map[string]string

func testAccess() *access {
	in := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("in")) }
	a := newAccess(testPort, http.HandlerFunc(in))
	a.token, a.code = "the-token", "the-code"
	return a
}

// TestAccess has each rule of access, and beside it what is allowed.
func TestAccess(t *testing.T) {
	const good = "Bearer the-token"
	cases := map[string]struct {
		method, path, host, body string
		header                   headers
		want                     int
	}{
		"the page, typed":              {header: headers{"Sec-Fetch-Site": "none"}, want: 200},
		"the page, by another program": {want: 200},
		"the page, by its other name":  {host: "localhost:" + testPort, want: 200},
		"another host":                 {host: "evil.example:" + testPort, want: 403},
		"another port":                 {host: "127.0.0.1:1", want: 403},
		"no port":                      {host: "127.0.0.1", want: 403},
		"a host that starts alike":     {host: "127.0.0.1:" + testPort + ".evil.example", want: 403},
		"another name of this machine": {host: "127.0.0.2:" + testPort, want: 403},
		"the host in capitals":         {host: "LOCALHOST:" + testPort, want: 403},
		"another host, with the token": {path: "/api/node", host: "evil.example",
			header: headers{"Authorization": good}, want: 403},
		"a foreign origin":             {header: headers{"Origin": "http://evil.example"}, want: 403},
		"an origin without a name":     {header: headers{"Origin": "null"}, want: 403},
		"another port of this machine": {header: headers{"Origin": "http://127.0.0.1:1"}, want: 403},
		"the own origin, encrypted":    {header: headers{"Origin": "https://" + testHost}, want: 403},
		"the own origin": {path: "/api/node",
			header: headers{"Origin": "http://" + testHost, "Authorization": good}, want: 200},
		"from another site":  {header: headers{"Sec-Fetch-Site": "cross-site"}, want: 403},
		"from the same site": {header: headers{"Sec-Fetch-Site": "same-site"}, want: 403},
		"from another site, with token": {path: "/api/node",
			header: headers{"Sec-Fetch-Site": "cross-site", "Authorization": good}, want: 403},
		"data without a token":       {path: "/api/node", want: 401},
		"the stream without a token": {path: "/api/stream", want: 401},
		"a wrong token": {path: "/api/node",
			header: headers{"Authorization": "Bearer the-toke"}, want: 401},
		"a token of another kind": {path: "/api/node",
			header: headers{"Authorization": "Basic the-token"}, want: 401},
		"a token in the address": {path: "/api/node?token=the-token&code=the-code", want: 401},
		"a token in a cookie": {path: "/api/node",
			header: headers{"Cookie": "token=the-token"}, want: 401},
		"an unknown path without token": {path: "/api/x", want: 401},
		"data with the token":           {path: "/api/node", header: headers{"Authorization": good}, want: 200},
		"the stream with the token":     {path: "/api/stream", header: headers{"Authorization": good}, want: 200},
		"POST": {method: "POST", path: "/api/node",
			header: headers{"Authorization": good}, want: 405},
		"PUT": {method: "PUT", header: headers{"Authorization": good}, want: 405},
		"DELETE": {method: "DELETE", path: "/api/node",
			header: headers{"Authorization": good}, want: 405},
		"OPTIONS":               {method: "OPTIONS", path: "/api/session", want: 405},
		"HEAD":                  {method: "HEAD", want: 405},
		"the session by GET":    {path: "/api/session", want: 405},
		"the right code":        {method: "POST", path: "/api/session", body: `{"code":"the-code"}`, want: 200},
		"a wrong code":          {method: "POST", path: "/api/session", body: `{"code":"the-cod"}`, want: 401},
		"no code":               {method: "POST", path: "/api/session", body: `{}`, want: 401},
		"a code in the address": {method: "POST", path: "/api/session?code=the-code", want: 401},
		"a long body": {method: "POST", path: "/api/session", want: 401,
			body: `{"code":"the-code","x":"` + strings.Repeat("x", maxBody) + `"}`},
		"the code from another site": {method: "POST", path: "/api/session", body: `{"code":"the-code"}`,
			header: headers{"Origin": "http://evil.example"}, want: 403},
		"the code for another host": {method: "POST", path: "/api/session", body: `{"code":"the-code"}`,
			host: "evil.example", want: 403},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			method, path := c.method, c.path
			if method == "" {
				method = http.MethodGet
			}
			if path == "" {
				path = "/"
			}
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(c.body))
			r.Host = testHost
			if c.host != "" {
				r.Host = c.host
			}
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			testAccess().ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
			if got := strings.Contains(w.Body.String(), "the-token"); got != (c.path == sessionPath && c.want == 200) {
				t.Errorf("the token in the answer: %t", got)
			}
			for header, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
					"img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
					"require-trusted-types-for 'script'",
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
				"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
				"Set-Cookie": "", "Access-Control-Allow-Origin": "",
			} {
				if got := w.Header().Get(header); got != want {
					t.Errorf("%s: %q, want %q", header, got, want)
				}
			}
		})
	}
}

// TestTheMachinesTypes: on some machines, scripts are plain text.
func TestTheMachinesTypes(t *testing.T) {
	if err := mime.AddExtensionType(".js", "text/plain"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/": "text/html", "/app.js": "text/javascript", "/style.css": "text/css",
		"/icon.svg": "image/svg+xml"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		NewServer(emptyLive()).mux.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, want) || w.Body.Len() < 100 {
			t.Errorf("%s: %d, %s, %d bytes", path, w.Code, got, w.Body.Len())
		}
	}
}

func TestTheCodeWorksOnce(t *testing.T) {
	a := testAccess()
	for i, want := range []int{401, 200, 401} {
		body := `{"code":"the-code"}`
		if i == 0 {
			body = `{"code":"another"}` // a wrong one does not use it up
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, sessionPath, strings.NewReader(body))
		r.Host = testHost
		if a.ServeHTTP(w, r); w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
}

// serve serves what nothing is known of, until the test ends.
func serve(t *testing.T) (base, token string, end context.CancelFunc, ended chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	addresses, ended := make(chan string, 1), make(chan error, 1)
	live := emptyLive()
	go func() { ended <- NewServer(live).Serve(ctx, func(url string) { addresses <- url }) }()
	base, code, _ := strings.Cut(<-addresses, "/#code=")
	body := strings.NewReader(fmt.Sprintf(`{"code":%q}`, code))
	response, err := http.Post(base+sessionPath, "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	token = strings.TrimSuffix(strings.TrimPrefix(string(answer), `{"token":"`), "\"}\n")
	return base, token, cancel, ended
}

// open opens a stream until the test ends, and returns its status.
func open(t *testing.T, base, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+streamPath, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response.StatusCode
}

func TestServe(t *testing.T) {
	base, token, end, ended := serve(t)
	if !strings.HasPrefix(base, "http://127.0.0.1:") {
		t.Errorf("it listens on %s", base)
	}
	for i := range maxStreams {
		if status := open(t, base, token); status != http.StatusOK {
			t.Fatalf("stream %d: %d", i, status)
		}
	}
	if status := open(t, base, token); status != http.StatusTooManyRequests {
		t.Errorf("a stream too many: %d", status)
	}
	end() // while streams are open
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the server has not ended")
	}
}

// TestPauseFor: a watch that is not allowed ends after ten seconds, so that the reflector lists again.
func TestPauseFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := pauseFor(t.Context())
		event := <-w.ResultChan()
		if took := time.Since(began); took != pollEvery || event.Type != "ERROR" {
			t.Errorf("%s after %s", event.Type, took)
		}
		w = pauseFor(t.Context())
		w.Stop()
		if _, open := <-w.ResultChan(); open {
			t.Error("a stopped watch has an event")
		}
	})
}

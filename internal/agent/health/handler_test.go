// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nodegate/nodegate/internal/agent/checks"
)

func testHandler(all ...checks.Check) *Handler {
	all = append([]checks.Check{
		checks.Always("node_ready", checks.Pass()),
		checks.Always("good", checks.Pass()),
		checks.Always("bad", checks.Fail("Broken")),
		checks.Always("open", checks.FailedOpen("no answer")),
		checks.Always("misconfigured", checks.Misconfigured("NODE_NAME is not set")),
	}, all...)
	suite := checks.NewSuite(nil, nil, all...)
	return &Handler{
		Suite: func() *checks.Suite { return suite }, Maintenance: func() string { return "" }, DrainStatus: 503,
		Starting: func() bool { return true }, Metrics: NewMetrics(prometheus.NewRegistry()),
	}
}

// reply is what came back.
type reply struct {
	code   int
	header http.Header
	body   string
}

func ask(h http.Handler, method, target string) reply {
	return send(h, httptest.NewRequest(method, target, nil))
}

func send(h http.Handler, r *http.Request) reply {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.String()}
}

// milliseconds are as many as the machine takes.
var milliseconds = regexp.MustCompile(`_ms":\d+`)

func TestHealth(t *testing.T) {
	passes := func(name string) string {
		return `{"status":"ready","checks":[{"name":"` + name + `","passed":true,"duration_ms":0}],"total_duration_ms":0}`
	}
	for _, c := range []struct {
		name, target string
		code         int
		body         string
	}{
		{"without check= node_ready runs", "/health", 200, passes("node_ready")},
		{"an empty check= is none", "/health?check=", 200, passes("node_ready")},
		{"check= replaces the default", "/health?check=good", 200, passes("good")},
		{"one failure fails all, and the order is the request's", "/health?check=bad,good", 503,
			`{"status":"not-ready","checks":[{"name":"bad","passed":false,"reason":"Broken","duration_ms":0},` +
				`{"name":"good","passed":true,"duration_ms":0}],"total_duration_ms":0}`},
		{"a name given twice runs once", "/health?check=good,good&check=good", 200, passes("good")},
		{"blanks and empty names are nothing", "/health?check=+good+,,", 200, passes("good")},
		{"an unknown check fails", "/health?check=bogus", 503,
			`{"status":"not-ready","checks":[{"name":"bogus","passed":false,"reason":"Unknown check: bogus",` +
				`"duration_ms":0}],"total_duration_ms":0}`},
		{"control characters come back escaped", "/health?check=%00%1b%0a1", 503,
			`{"status":"not-ready","checks":[{"name":"\u0000\u001b\n1","passed":false,"reason":"Unknown check:    1",` +
				`"duration_ms":0}],"total_duration_ms":0}`},
		{"a failure open is visible", "/health?check=open", 200,
			`{"status":"ready","checks":[{"name":"open","passed":true,"fail_open":"no answer","duration_ms":0}],` +
				`"total_duration_ms":0,"fail_open":true}`},
		{"what is misconfigured is an error", "/health?check=good,misconfigured", 500,
			`{"status":"not-ready","checks":[{"name":"good","passed":true,"duration_ms":0},{"name":"misconfigured",` +
				`"passed":false,"reason":"NODE_NAME is not set","duration_ms":0}],"total_duration_ms":0}`},
		{"text: healthy", "/health?format=text", 200, "up"},
		{"text: not healthy", "/health?format=text&check=bad", 503, "down"},
		{"text: an assumption", "/health?format=text&check=open", 200, "up fail-open"},
		{"text: an error", "/health?format=text&check=misconfigured", 500, "error"},
		{"the root is the same, for a bare option httpchk", "/", 200, passes("node_ready")},
		{"another path is not found, and never redirected", "//health", 404, "not found: ask for /health"},
		{"a query that cannot be read", "/health?check=%zz", 400, "the query cannot be read"},
		{"64 names are answered", "/health?check=" + names(64), 503, ""},
		{"65 are not", "/health?check=" + names(65), 400, "at most 64 checks can be asked for at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ask(testHandler(), http.MethodGet, c.target)
			if r.code != c.code {
				t.Errorf("status %d: %s", r.code, r.body)
			}
			if c.body != "" {
				if diff := cmp.Diff(c.body+"\n", milliseconds.ReplaceAllString(r.body, `_ms":0`)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "n%d,", i)
	}
	return b.String()
}

func TestMethods(t *testing.T) {
	for method, want := range map[string]int{"GET": 503, "HEAD": 503, "OPTIONS": 503, "POST": 405, "PUT": 405,
		"DELETE": 405, "TRACE": 405} {
		r := ask(testHandler(), method, "/health?check=bad")
		if r.code != want {
			t.Errorf("%s: status %d", method, r.code)
		}
		if method == "HEAD" && r.body != "" || method == "OPTIONS" && r.body == "" {
			t.Errorf("%s: body %q", method, r.body)
		}
		if want == 405 && r.header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("%s: Allow %q", method, r.header.Get("Allow"))
		}
	}
}

func TestFailOpenIsInTheHeaderAndAMetric(t *testing.T) {
	h := testHandler(checks.Always("http:é", checks.FailedOpen("x")))
	registry := prometheus.NewRegistry()
	h.Metrics = NewMetrics(registry)
	r := ask(h, "GET", "/health?check=open,good,http:%C3%A9,http:absent,bogus")
	if got := r.header.Get(FailOpenHeader); got != "open,http:,http:absent" {
		t.Errorf("header %q", got)
	}
	want := `
# HELP node_readiness_agent_check_fail_open 1 if the last result of the check was fail-open, otherwise 0.
# TYPE node_readiness_agent_check_fail_open gauge
node_readiness_agent_check_fail_open{check="good"} 0
node_readiness_agent_check_fail_open{check="http:*"} 1
node_readiness_agent_check_fail_open{check="http:é"} 1
node_readiness_agent_check_fail_open{check="open"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"node_readiness_agent_check_fail_open"); err != nil {
		t.Error(err)
	}
}

// TestTheMetricOfFailOpenForgetsRequestsByHand: an alert stays only for checks that load balancers go on to ask for.
func TestTheMetricOfFailOpenForgetsRequestsByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, registry := testHandler(), prometheus.NewRegistry()
		h.Metrics = NewMetrics(registry)
		expect := func(when, want string) {
			t.Helper()
			var got []string
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() != "node_readiness_agent_check_fail_open" {
					continue
				}
				for _, m := range f.GetMetric() {
					got = append(got, fmt.Sprintf("%s=%v", m.GetLabel()[0].GetValue(), m.GetGauge().GetValue()))
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %v", when, got)
			}
		}
		ask(h, "GET", "/health?check=rule:typing-error,good,open")
		expect("at once", "good=0 open=1 rule:*=1")
		time.Sleep(5 * time.Minute) // as long as the slowest load balancers wait
		expect("before the next request", "good=0 open=1 rule:*=1")
		ask(h, "GET", "/health?check=open")
		time.Sleep(5 * time.Minute)
		expect("much later", "open=1")
	})
}

func TestMaintenanceAndDraining(t *testing.T) {
	const up, drains = "up 100%\n", "up 0%\n"
	for _, status := range []int{503, 404} {
		h := testHandler()
		starting, why := true, ""
		h.DrainStatus, h.Starting, h.Maintenance = status, func() bool { return starting }, func() string { return why }
		expect := func(when, target string, code int, line string) {
			t.Helper()
			if r := ask(h, "GET", target); r.code != code {
				t.Errorf("%s, drain status %d: %d", when, status, r.code)
			}
			if got := h.agentCheckLine(); got != line {
				t.Errorf("%s, drain status %d: %q", when, status, got)
			}
		}
		if status == 404 {
			expect("an agent that cannot judge yet", "/health?check=good", 404, drains)
		} else { // which would look like a failure
			expect("an agent that cannot judge yet", "/health?check=good", 200, up)
		}
		starting = false
		expect("a node that is well", "/health?check=good", 200, up)
		why = "in maintenance: disk swap"
		expect("maintenance", "/health?check=good", status, drains)
		expect("maintenance of a node that fails besides", "/health?check=bad", 503, drains)
		expect("maintenance, asked for as a check", "/health?check=maintenance", 503, drains)
		a := h.Answer([]string{"good"})
		if a.Checks[1] != (CheckAnswer{Name: "maintenance", Reason: why}) {
			t.Errorf("got %+v", a)
		}
		why = ""
		expect("after the maintenance", "/health?check=good", 200, up)
		expect("an unknown check with the name of the shutdown", "/health?check=draining", 503, up)
		h.Drain()
		expect("an agent that ends", "/health?check=good", status, drains)
		if r := ask(h, "GET", "/health?check=good&format=text"); r.code != status || r.body != "down\n" {
			t.Errorf("as text: %+v", r)
		}
	}
}

func TestAnAnswerTakesAsLongAsTheSlowestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(name string, d time.Duration) checks.Check {
			return checks.Check{Name: name, Timeout: time.Minute,
				Run: func(context.Context) checks.Result { time.Sleep(d); return checks.Pass() }}
		}
		h := testHandler(slow("a", time.Second), slow("b", 3*time.Second), slow("c", 2*time.Second))
		a := h.Answer([]string{"a", "b", "good", "c"})
		var got []int64
		for _, c := range a.Checks {
			got = append(got, c.DurationMillis)
		}
		if diff := cmp.Diff([]int64{1000, 3000, 0, 2000}, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if a.TotalMillis != 3000 {
			t.Errorf("%d ms in all", a.TotalMillis)
		}
	})
}

func TestAgentCheckLine(t *testing.T) {
	for _, c := range []struct{ check, want string }{
		{"good", "up 100%\n"},
		{"open", "up 100%\n"},
		{"bad", "down #bad: Broken\n"},
		{"long", "down #long: " + strings.Repeat("x", maxAgentCheckReason-len("long: ")) + "\n"},
	} {
		t.Run(c.check, func(t *testing.T) {
			h := testHandler(checks.Always("long", checks.Fail("#"+strings.Repeat("x", 200))))
			all := h.Suite()
			suite := checks.NewSuite(nil, []checks.Check{checks.Always(c.check, all.Group(c.check).Do(t.Context()).Result)})
			h.Suite = func() *checks.Suite { return suite }
			if got := h.agentCheckLine(); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// FuzzHealth asks for anything: the answer is always a known status and, where it is about checks, JSON.
func FuzzHealth(f *testing.F) {
	for _, s := range []string{"check=node_ready", "check=%00", "check=a,b&format=text", "%zz",
		strings.Repeat("check=a&", 100)} {
		f.Add(s)
	}
	h := testHandler()
	f.Fuzz(func(t *testing.T, query string) {
		r := ask(h, "GET", (&url.URL{Path: "/health", RawQuery: url.PathEscape(query)}).String())
		raw := httptest.NewRequest("GET", "/health", nil)
		raw.URL.RawQuery = query
		for _, r := range []reply{r, send(h, raw)} {
			switch r.code {
			case 200, 503, 500, 400:
			default:
				t.Errorf("status %d", r.code)
			}
			if strings.HasPrefix(r.header.Get("Content-Type"), "application/json") && !json.Valid([]byte(r.body)) {
				t.Error("the body is not JSON")
			}
		}
	})
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/checks"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/version"
)

func listen(t *testing.T) (net.Listener, int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, int32(l.Addr().(*net.TCPAddr).Port) //nolint:errcheck // it is one
}

// once runs a probe as a worker does.
func once(t *testing.T, p *Probe) Finding {
	t.Helper()
	return p.finding(checks.NewRunner(p.Check).Do(t.Context()))
}

func run(t *testing.T, spec v1alpha1.Probe) Finding {
	t.Helper()
	p, _ := fromSpec(&spec, checks.Environment{})
	return once(t, &p)
}

func succeeds(t *testing.T, spec v1alpha1.Probe) {
	t.Helper()
	if f := run(t, spec); !f.OK || f.Reason != ReasonSucceeded {
		t.Errorf("got %+v", f)
	}
}

func fails(t *testing.T, message string, spec v1alpha1.Probe) {
	t.Helper()
	if diff := cmp.Diff(Finding{Reason: ReasonFailed, Message: message}, run(t, spec)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTCPSocket(t *testing.T) {
	l, port := listen(t)
	spec := v1alpha1.Probe{TCPSocket: &v1alpha1.TCPSocketAction{Port: port}}
	succeeds(t, spec)
	_ = l.Close()
	fails(t, fmt.Sprintf("127.0.0.1:%d: connect: connection refused", port), spec)
}

func TestGRPC(t *testing.T) {
	l, port := listen(t)
	server, service := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(server, service)
	service.SetServingStatus("cni", healthpb.HealthCheckResponse_NOT_SERVING)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	succeeds(t, v1alpha1.Probe{GRPC: &v1alpha1.GRPCAction{Port: port}})
	fails(t, "the service is NOT_SERVING", v1alpha1.Probe{GRPC: &v1alpha1.GRPCAction{Port: port, Service: "cni"}})
	fails(t, fmt.Sprintf("127.0.0.1:%d: unknown service", port), v1alpha1.Probe{
		GRPC: &v1alpha1.GRPCAction{Port: port, Service: "other"}})
	server.Stop()
	fails(t, fmt.Sprintf("127.0.0.1:%d: connect: connection refused", port),
		v1alpha1.Probe{GRPC: &v1alpha1.GRPCAction{Port: port}})
}

// talkative is a service that answers with a long text.
type talkative struct {
	healthpb.UnimplementedHealthServer
}

func (talkative) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	return nil, status.Error(codes.Internal, strings.Repeat("é", 4000))
}

// TestATextOfAServiceIsCut: the text becomes the message of a condition, which all watchers of nodes get.
func TestATextOfAServiceIsCut(t *testing.T) {
	l, port := listen(t)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, talkative{})
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	f := run(t, v1alpha1.Probe{GRPC: &v1alpha1.GRPCAction{Port: port}})
	if n := len(f.Message); n < 500 || n > 520 || !utf8.ValidString(f.Message) {
		t.Errorf("%d bytes: %s", n, f.Message)
	}
}

func TestFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		path := filepath.Join(root, "ready")
		for _, err := range []error{os.WriteFile(path, nil, 0o600), os.Chtimes(path, time.Now(), time.Now()),
			os.Symlink("/ready", filepath.Join(root, "link"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		finds := func(when, path, want string) {
			t.Helper()
			spec := v1alpha1.Probe{File: &v1alpha1.FileAction{Path: path, MaxAgeSeconds: new(int32(60))}}
			p, _ := fromSpec(&spec, checks.Environment{HostRoot: root})
			if f := once(t, &p); f.OK != (want == "") || !f.OK && f.Message != want {
				t.Errorf("%s: got %+v", when, f)
			}
		}
		finds("it is there", "/ready", "")
		finds("an absolute link leads to the node's file, not to the agent's own", "/link", "")
		finds("it is not there", "/missing", "there is no file /missing")
		time.Sleep(time.Minute)
		finds("it is exactly as old as it may be", "/ready", "")
		time.Sleep(time.Nanosecond)
		finds("it is older", "/ready", "/ready was last changed at 2000-01-01T00:00:00Z, more than 1m0s ago")
	})
}

func TestOnlyThisNodeIsAsked(t *testing.T) {
	const elsewhere = "192.0.2.200"
	for name, spec := range map[string]v1alpha1.Probe{
		"tcpSocket": {TCPSocket: &v1alpha1.TCPSocketAction{Host: elsewhere, Port: 9}},
		"httpGet":   {HTTPGet: &v1alpha1.HTTPGetAction{Host: elsewhere, Port: 9}},
		"grpc":      {GRPC: &v1alpha1.GRPCAction{Host: elsewhere, Port: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			if f := run(t, spec); f.OK || !strings.Contains(f.Message, elsewhere+" is not an address of this node") {
				t.Errorf("got %+v", f)
			}
		})
	}
}

func TestProbesOfRules(t *testing.T) {
	p, _ := fromSpec(&v1alpha1.Probe{ConditionType: "example.com/A", File: &v1alpha1.FileAction{Path: "/x"}},
		checks.Environment{})
	if p.Period != 30*time.Second || p.Check.Timeout != 10*time.Second || p.SuccessThreshold != 1 ||
		p.FailureThreshold != 3 || p.Heartbeat != 5*time.Minute {
		t.Errorf("the defaults: %+v", p)
	}
	other, _ := fromSpec(&v1alpha1.Probe{ConditionType: "example.com/A", File: &v1alpha1.FileAction{Path: "/y"}},
		checks.Environment{})
	if p.Identity == other.Identity {
		t.Error("a probe that has changed is taken for the same")
	}
	for name, spec := range map[string]v1alpha1.Probe{
		"an action of a later version": {},
		"a check of a later version":   {Check: "later"},
		"a check of a rule":            {Check: "rule:a"},
		"a status that is none":        {HTTPGet: &v1alpha1.HTTPGetAction{Port: 1, ExpectedStatuses: []string{"ok"}}},
	} {
		spec.ConditionType = "example.com/A"
		rule := config.Rule{Name: "newer", Probes: []v1alpha1.Probe{spec}}
		got, problems := ForRules(checks.Environment{}, nil, []config.Rule{rule})
		if len(got) != 1 || !got[0].Skip || len(problems) != 1 {
			t.Errorf("%s: %+v, %v", name, got, problems)
		}
	}
	if f := run(t, v1alpha1.Probe{Check: checks.NameFilesystem}); f.Reason == ReasonInvalid {
		t.Errorf("a check by name: %+v", f)
	}
}

func TestTheOlderRulePublishes(t *testing.T) {
	probe := func(name string, port int32) v1alpha1.Probe {
		return v1alpha1.Probe{ConditionType: name, TCPSocket: &v1alpha1.TCPSocketAction{Port: port}}
	}
	old := config.Rule{Name: "old", Probes: []v1alpha1.Probe{probe("example.com/A", 1)}}
	young := config.Rule{Name: "young", Probes: []v1alpha1.Probe{probe("example.com/A", 2), probe("example.com/B", 3),
		probe("Ready", 4)}}
	got, problems := ForRules(checks.Environment{}, nil, []config.Rule{old, young})
	if len(got) != 2 || got[0].ConditionType != "example.com/A" || got[1].ConditionType != "example.com/B" {
		t.Errorf("got %+v", got)
	}
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	if diff := cmp.Diff([]string{
		"rule young: the condition example.com/A is published by the older rule old",
		"rule young: the condition Ready belongs to kubelet or the cloud provider",
	}, texts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if single, _ := ForRules(checks.Environment{}, nil, []config.Rule{old}); single[0].Identity != got[0].Identity {
		t.Error("it is not the older one's")
	}
}

// reporterFrom reads the environment of the incumbent's reporter.
func reporterFrom(env map[string]string) (*Reporter, error) {
	return ReporterFromEnv(func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		slog.New(slog.DiscardHandler))
}

// TestReporter has the reasons of the incumbent's reporter, and its metrics.
func TestReporter(t *testing.T) {
	status := http.StatusOK
	unread := make(chan bool, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/endless" {
			w.WriteHeader(status)
			return
		}
		for range 1 << 10 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				unread <- true
				return
			}
		}
		unread <- false
	}))
	defer server.Close()
	registry := prometheus.NewPedanticRegistry()
	m := NewReporterMetrics(registry)
	finds := func(path string, ok bool, reason string) {
		t.Helper()
		r, err := reporterFrom(map[string]string{"CONDITION_TYPE": "example.com/A",
			"CHECK_ENDPOINT": strings.Replace(server.URL, "http://", "http://me:secret@", 1) + path})
		if err != nil {
			t.Fatal(err)
		}
		p := r.Probe()
		f := once(t, &p)
		if f.OK != ok || f.Reason != reason || strings.Contains(f.Message, "secret") {
			t.Errorf("got %+v", f)
		}
		m.ran(p.ConditionType, f, time.Millisecond)
	}
	finds("", true, "EndpointOK")
	finds("/endless", true, "EndpointOK")
	if !<-unread {
		t.Error("it has read 64 MiB of an answer")
	}
	status = http.StatusNoContent
	finds("", true, "EndpointOK")
	status = http.StatusServiceUnavailable
	finds("", false, "EndpointNotReady")
	server.Close()
	finds("", false, "EndpointConnectionError")
	m.wrote("success")
	m.wrote("error")
	m.skipped()

	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP node_readiness_reporter_build_info Always 1, with the version as a label.
# TYPE node_readiness_reporter_build_info gauge
node_readiness_reporter_build_info{version="`+version.Version+`"} 1
# HELP node_readiness_reporter_check_duration_seconds How long a check of the reporter's endpoint takes.
# TYPE node_readiness_reporter_check_duration_seconds histogram
node_readiness_reporter_check_duration_seconds_bucket{le="0.005"} 5
node_readiness_reporter_check_duration_seconds_bucket{le="0.1"} 5
node_readiness_reporter_check_duration_seconds_bucket{le="0.25"} 5
node_readiness_reporter_check_duration_seconds_bucket{le="0.5"} 5
node_readiness_reporter_check_duration_seconds_bucket{le="1"} 5
node_readiness_reporter_check_duration_seconds_bucket{le="2.5"} 5
node_readiness_reporter_check_duration_seconds_bucket{le="5"} 5
node_readiness_reporter_check_duration_seconds_bucket{le="10"} 5
node_readiness_reporter_check_duration_seconds_bucket{le="+Inf"} 5
node_readiness_reporter_check_duration_seconds_sum 0.005
node_readiness_reporter_check_duration_seconds_count 5
# HELP node_readiness_reporter_checks_total Checks of the reporter's endpoint: healthy, unhealthy or error (no answer).
# TYPE node_readiness_reporter_checks_total counter
node_readiness_reporter_checks_total{result="error"} 1
node_readiness_reporter_checks_total{result="healthy"} 3
node_readiness_reporter_checks_total{result="unhealthy"} 1
# HELP node_readiness_reporter_condition_writes_total Writes of the reporter's condition: success, error, or skipped `+
		`if the condition was up to date.
# TYPE node_readiness_reporter_condition_writes_total counter
node_readiness_reporter_condition_writes_total{result="error"} 1
node_readiness_reporter_condition_writes_total{result="skipped"} 1
node_readiness_reporter_condition_writes_total{result="success"} 1
`), "node_readiness_reporter_build_info", "node_readiness_reporter_check_duration_seconds",
		"node_readiness_reporter_checks_total", "node_readiness_reporter_condition_writes_total"); err != nil {
		t.Error(err)
	}
}

func TestTheReportersEnvironment(t *testing.T) {
	env := func(endpoint, condition string) map[string]string {
		return map[string]string{"CHECK_ENDPOINT": endpoint, "CONDITION_TYPE": condition}
	}
	for _, c := range []struct{ endpoint, condition, want string }{
		{"", "example.com/A", "CHECK_ENDPOINT"},
		{"http://localhost:1", "", "CONDITION_TYPE"},
		{"localhost:1", "example.com/A", "CHECK_ENDPOINT"},
		{"ftp://localhost", "example.com/A", "CHECK_ENDPOINT"},
	} {
		if _, err := reporterFrom(env(c.endpoint, c.condition)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if r, err := reporterFrom(nil); r != nil || err != nil {
		t.Errorf("no reporter is asked for: %v, %v", r, err)
	}
	for given, want := range map[[2]string][2]time.Duration{
		{"", ""}:          {30 * time.Second, 5 * time.Minute},
		{"5s", "1m"}:      {5 * time.Second, time.Minute},
		{"0s", "0"}:       {30 * time.Second, 5 * time.Minute},
		{"-1s", "-5m"}:    {30 * time.Second, 5 * time.Minute},
		{"30", "at dawn"}: {30 * time.Second, 5 * time.Minute},
	} {
		durations := env("http://localhost:1", "example.com/A")
		durations["CHECK_INTERVAL"], durations["HEARTBEAT_PERIOD"] = given[0], given[1]
		r, err := reporterFrom(durations)
		if err != nil {
			t.Fatal(err)
		}
		if p := r.Probe(); p.Period != want[0] || p.Heartbeat != want[1] || p.SuccessThreshold != 1 ||
			p.FailureThreshold != 1 {
			t.Errorf("%q: got %+v", given, p)
		}
	}
}

// TestWithoutTheNodesFiles: a probe of files that the agent does not see must not look at the agent's own.
func TestWithoutTheNodesFiles(t *testing.T) {
	for name, spec := range map[string]v1alpha1.Probe{
		"file":  {File: &v1alpha1.FileAction{Path: "/"}},
		"check": {Check: checks.NameFilesystem},
	} {
		p, _ := fromSpec(&spec, checks.Environment{NoHostRoot: true})
		want := Finding{Reason: ReasonInvalid, Message: "the agent does not see the node's files: --host-root is none"}
		if diff := cmp.Diff(want, once(t, &p)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	p, _ := fromSpec(&v1alpha1.Probe{Check: checks.NameKubelet}, checks.Environment{NoHostRoot: true})
	if f := once(t, &p); f.Reason == ReasonInvalid {
		t.Errorf("a check that needs no files: %+v", f)
	}
}

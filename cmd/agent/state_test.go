// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// fakeAPI answers the list of nodes with one node, and nothing to a watch. It takes over the conditions of a patch. It
// returns a kubeconfig.
func fakeAPI(t *testing.T, node *corev1.Node) (kubeconfig string, server *httptest.Server) {
	t.Helper()
	node = node.DeepCopy()
	node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	var mu sync.Mutex
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPatch {
			mu.Lock()
			defer mu.Unlock()
			patch := corev1.Node{}
			_ = json.NewDecoder(r.Body).Decode(&patch)
			for _, c := range patch.Status.Conditions {
				others := func(o corev1.NodeCondition) bool { return o.Type == c.Type }
				node.Status.Conditions = append(slices.DeleteFunc(node.Status.Conditions, others), c)
			}
			node.ResourceVersion += "0" // it grows
			_ = json.NewEncoder(w).Encode(node)
			return
		}
		if r.URL.Query().Has("watch") {
			w.(http.Flusher).Flush() //nolint:errcheck // it is one
			<-r.Context().Done()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{*node}}
		list.ResourceVersion = "7"
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(server.Close)
	return cluster.Kubeconfig(t, server.URL, nil, ""), server
}

// TestARestartInAnOutageChangesNothing: an agent that knows neither its rules nor its labels goes on with those that it
// had.
func TestARestartInAnOutageChangesNothing(t *testing.T) {
	node := build.MakeNode("saved").UID("uid-1").Label("pool", "workers").Obj()
	node.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True"}}
	kubeconfig, server := fakeAPI(t, node)
	dir := t.TempDir()
	rules, state := filepath.Join(dir, "rules.json"), filepath.Join(dir, "state.json")
	writeConfig(t, rules, config.Rule{Name: "workers", UID: "1",
		NodeSelector: v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "workers"}},
		Health: &v1alpha1.Health{Checks: []v1alpha1.HealthCheck{
			{Name: "node_ready"}, {Name: "http:ingress", HTTPGet: &v1alpha1.HTTPGetAction{Port: 1}},
		}},
	})
	env := map[string]string{"NODE_NAME": "saved"}
	args := []string{"--kubeconfig", kubeconfig, "--config", rules, "--state-file", state}
	a := startAgent(t, env, args...)
	a.defaults(t, "node_ready", "http:ingress")
	a.stop()
	<-a.ended

	server.CloseClientConnections()
	server.Close()
	cluster.Must(t, os.Remove(rules))
	a = startAgent(t, env, args...)
	a.defaults(t, "node_ready", "http:ingress")
	got := a.Health(t, "")
	if got.Code != 503 || got.FailOpen == "" || !got.Checks[0].Passed || got.Checks[1].Passed {
		t.Errorf("node_ready fails open, and the check that needs only the node runs: %+v", got)
	}
	a.stop()
	<-a.ended

	// A node of the same name that was created again is another one.
	other := node.DeepCopy()
	other.UID = "uid-2"
	kubeconfig, _ = fakeAPI(t, other)
	a = startAgent(t, env, "--kubeconfig", kubeconfig, "--config", rules, "--state-file", state)
	cluster.Eventually(t, "the log", func() error {
		if n := a.Count("The saved state is of another node and is dropped"); n != 1 {
			return fmt.Errorf("told %d times", n)
		}
		return nil
	})
	a.defaults(t, "node_ready")
}

// TestAStateFileOnADiskThatHangs: the rules come into force, and the agent ends.
func TestAStateFileOnADiskThatHangs(t *testing.T) {
	node := build.MakeNode("x").UID("uid-1").Label("pool", "workers").Obj()
	kubeconfig, _ := fakeAPI(t, node)
	dir := t.TempDir()
	rules, state := filepath.Join(dir, "rules.json"), filepath.Join(dir, "state.json")
	cluster.Must(t, syscall.Mkfifo(state+".new", 0o600)) // no process reads it: to open it hangs
	writeConfig(t, rules)
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig", kubeconfig, "--config", rules,
		"--state-file", state)
	a.defaults(t, "node_ready")
	writeConfig(t, rules, config.Rule{Name: "workers", UID: "1",
		NodeSelector: v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "workers"}},
		Health:       &v1alpha1.Health{Checks: []v1alpha1.HealthCheck{{Name: "schedulable"}}},
	})
	a.defaults(t, "schedulable")
	a.stop()
	<-a.ended
	reader, err := os.OpenFile(state+".new", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	cluster.Must(t, err)
	cluster.Must(t, reader.Close())
}

// TestWithoutAConfiguration: what is judged by rules passes, and says in the body, the header and the metric that it
// could not judge.
func TestWithoutAConfiguration(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "rules.json")
	cluster.Must(t, os.WriteFile(broken, []byte("{"), 0o600))
	node := build.MakeNode("x").UID("uid-1").Obj()
	kubeconfig, _ := fakeAPI(t, node)
	for name, file := range map[string]string{"missing": "/nonexistent/rules.json", "broken": broken} {
		t.Run(name, func(t *testing.T) {
			a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig", kubeconfig, "--config", file)
			a.Is(t, 503, false, "the node has no Ready condition") // the node is known
			for _, check := range []string{"rules", "custom_conditions"} {
				got := a.Health(t, "?check="+check)
				if got.Code != 200 || got.FailOpen != check ||
					got.Checks[0].FailOpen != "the agent has no configuration yet" {
					t.Errorf("%s: %+v", check, got)
				}
				if a.Metric(t, `node_readiness_agent_check_fail_open{check="`+check+`"}`) != 1 {
					t.Errorf("%s: the metric does not tell", check)
				}
			}
		})
	}
}

// TestARuleInDryRunEmptiesNoPool: a balancer asks for a check of a rule, and the rule goes into dry-run. It is not the
// nodes' fault.
func TestARuleInDryRunEmptiesNoPool(t *testing.T) {
	ingress := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(ingress.Close)
	port := int32(ingress.Listener.Addr().(*net.TCPAddr).Port) //nolint:errcheck // it is one
	node := build.MakeNode("x").UID("uid-1").Label("pool", "workers").Obj()
	node.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True"}}
	kubeconfig, _ := fakeAPI(t, node)
	rules := filepath.Join(t.TempDir(), "rules.json")
	rule := config.Rule{Name: "ingress", UID: "1",
		NodeSelector: v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "workers"}},
		Health: &v1alpha1.Health{Checks: []v1alpha1.HealthCheck{
			{Name: "http:ingress", HTTPGet: &v1alpha1.HTTPGetAction{Port: port}}}},
	}
	writeConfig(t, rules, rule)
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig", kubeconfig, "--config", rules)
	a.defaults(t, "http:ingress")
	const asked = "?check=node_ready,http:ingress"
	if got := a.Health(t, asked); got.Code != 200 || got.FailOpen != "" {
		t.Fatalf("in force: %+v", got)
	}
	writeConfig(t, rules) // which has nothing of a rule in dry-run with health alone
	a.defaults(t, "node_ready")
	if got := a.Health(t, asked); got.Code != 200 || got.FailOpen != "http:ingress" {
		t.Errorf("in dry-run: %+v", got)
	}
	for _, name := range []string{`node_readiness_agent_check_fail_open{check="http:*"}`,
		`node_readiness_agent_check_results_total{check="http:*",result="fail_open"}`} {
		if got := a.Metric(t, name); got != 1 {
			t.Errorf("%s %v", name, got)
		}
	}
	if got := a.Health(t, "?check=bogus"); got.Code != 503 {
		t.Errorf("another name: %+v", got)
	}
	// No balancer asks for it again: else the gauge would stay at 1, and the alert would fire for ever.
	writeConfig(t, rules, rule)
	a.defaults(t, "http:ingress")
	if _, got := a.Get(t, "metrics", "/metrics"); strings.Contains(got, `check_fail_open{check="http:*"}`) {
		t.Errorf("the check is gone, and its gauge is there:\n%s", got)
	}

	// The same for an agent that knows neither its rules nor its labels. What needs only the node still runs.
	away := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig=/nonexistent", "--config", rules)
	got := away.Health(t, "?check=http:ingress,filesystem_ro")
	if got.Code != 200 || got.FailOpen != "http:ingress" || got.Checks[1].FailOpen != "" {
		t.Errorf("without labels: %+v", got)
	}
}

// TestAMessageThatChangesIsNoWrite has a probe whose message is another one with each run.
func TestAMessageThatChangesIsNoWrite(t *testing.T) {
	node := build.MakeNode("x").UID("uid-1").Label("pool", "workers").Obj()
	node.ResourceVersion = "7"
	kubeconfig, _ := fakeAPI(t, node)
	old := filepath.Join(t.TempDir(), "old")
	cluster.Must(t, os.WriteFile(old, nil, 0o600))
	change := func(n int) {
		at := time.Now().Add(-time.Duration(n) * time.Hour)
		cluster.Must(t, os.Chtimes(old, at, at))
	}
	change(1)
	rules, second := filepath.Join(t.TempDir(), "rules.json"), int32(1)
	writeConfig(t, rules, config.Rule{Name: "old", UID: "1",
		NodeSelector: v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "workers"}},
		Probes: []v1alpha1.Probe{{ConditionType: "example.com/Fresh", PeriodSeconds: &second,
			File: &v1alpha1.FileAction{Path: old, MaxAgeSeconds: &second}}},
	})
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig", kubeconfig, "--config", rules)
	for n := 1; n < 5; n++ {
		change(n)
		cluster.Eventually(t, "a run", func() error {
			const runs = `node_readiness_agent_probe_runs_total{condition="example.com/Fresh",result="failure"}`
			if a.Metric(t, runs) != float64(n) {
				return errors.New("not yet")
			}
			return nil
		})
	}
	if n := a.Metric(t, `node_readiness_agent_condition_writes_total{result="success"}`); n != 1 {
		t.Errorf("it has written %v times", n)
	}
}

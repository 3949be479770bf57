// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// fakeAPI answers the list of nodes with one node, and nothing to a watch. It returns a kubeconfig.
func fakeAPI(t *testing.T, node *corev1.Node) (kubeconfig string, server *httptest.Server) {
	t.Helper()
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Has("watch") {
			w.(http.Flusher).Flush() //nolint:errcheck // it is one
			<-r.Context().Done()
			return
		}
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
	node := build.MakeNode("saved").UID("uid-1").Label("pool", "workers").Condition("Ready", "True", time.Now()).Obj()
	kubeconfig, server := fakeAPI(t, node)
	dir := t.TempDir()
	rules, state := filepath.Join(dir, "rules.json"), filepath.Join(dir, "state.json")
	writeConfig(t, rules, workers(v1alpha1.HealthCheck{Name: "node_ready"},
		v1alpha1.HealthCheck{Name: "http:ingress", HTTPGet: &v1alpha1.HTTPGetAction{Port: 1}}))
	env := map[string]string{"NODE_NAME": "saved"}
	args := []string{"--kubeconfig", kubeconfig, "--config", rules, "--state-file", state}
	a := startAgent(t, env, args...)
	a.defaults(t, "node_ready", "http:ingress")
	a.end()

	server.CloseClientConnections()
	server.Close()
	cluster.Must(t, os.Remove(rules))
	a = startAgent(t, env, args...)
	a.defaults(t, "node_ready", "http:ingress")
	got := a.Health(t, "")
	if got.Code != 503 || got.FailOpen == "" || !got.Checks[0].Passed || got.Checks[1].Passed {
		t.Errorf("node_ready fails open, and the check that needs only the node runs: %+v", got)
	}
	a.end()

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

// TestARestartInAnOutageKeepsTheNode: without a configuration, too, maintenance and the last known node stay.
func TestARestartInAnOutageKeepsTheNode(t *testing.T) {
	node := build.MakeNode("kept").UID("uid-1").Annotation(v1alpha1.MaintenanceAnnotation, "disk swap").
		Condition("Ready", "False", time.Now()).Obj()
	kubeconfig, server := fakeAPI(t, node)
	args := []string{"--kubeconfig", kubeconfig, "--state-file", filepath.Join(t.TempDir(), "state.json")}
	env := map[string]string{"NODE_NAME": "kept"}
	a := startAgent(t, env, args...)
	a.Is(t, 503, false, "False")
	a.end()
	server.CloseClientConnections()
	server.Close()
	a = startAgent(t, env, args...)
	cluster.Eventually(t, "maintenance", func() error {
		got := a.Health(t, "")
		if got.Code != 503 || got.FailOpen == "" || len(got.Checks) != 2 ||
			got.Checks[1].Reason != "in maintenance: disk swap" {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	a.end()
	a = startAgent(t, env, append(args, "--api-unavailable=last-known")...)
	cluster.Eventually(t, "the last known state", func() error {
		if got := a.Health(t, "?check=node_ready"); got.Checks[0].Passed {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
}

// TestAStateWithRulesThatTheAgentDoesNotGetAnyMore: it was restarted without --config.
func TestAStateWithRulesThatTheAgentDoesNotGetAnyMore(t *testing.T) {
	node := build.MakeNode("x").UID("uid-1").Label("pool", "workers").Obj()
	kubeconfig, _ := fakeAPI(t, node)
	dir := t.TempDir()
	rules, env := filepath.Join(dir, "rules.json"), map[string]string{"NODE_NAME": "x"}
	args := []string{"--kubeconfig", kubeconfig, "--state-file", filepath.Join(dir, "state.json")}
	writeConfig(t, rules, workers(v1alpha1.HealthCheck{Name: "schedulable"}))
	a := startAgent(t, env, append(args, "--config", rules)...)
	a.defaults(t, "schedulable")
	a.end()
	a = startAgent(t, env, args...)
	time.Sleep(time.Second / 5) // the state is in force at once
	a.defaults(t, "node_ready")
}

// TestTheStateIsWrittenOnChanges: a heartbeat comes every few minutes from each condition.
func TestTheStateIsWrittenOnChanges(t *testing.T) {
	f := readState(filepath.Join(t.TempDir(), "state.json"), "n", slog.New(slog.DiscardHandler))
	node := build.MakeNode("n").UID("u").Condition("Ready", "True", time.Unix(1, 0)).Obj()
	written := func(change func(*corev1.Node)) bool {
		node = node.DeepCopy()
		change(node)
		f.save(nil, node, false)
		select {
		case <-f.unwritten:
			return true
		default:
			return false
		}
	}
	ready := func(n *corev1.Node) *corev1.NodeCondition { return &n.Status.Conditions[0] }
	if !written(func(*corev1.Node) {}) {
		t.Error("the first state is not written")
	}
	if written(func(n *corev1.Node) { ready(n).LastHeartbeatTime = metav1.Now(); n.ResourceVersion = "9" }) {
		t.Error("a heartbeat is written")
	}
	for name, change := range map[string]func(*corev1.Node){
		"status":      func(n *corev1.Node) { ready(n).Status = "False" },
		"cordon":      func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"annotations": func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.MaintenanceAnnotation: "x"} },
		"labels":      func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} },
	} {
		if !written(change) {
			t.Errorf("%s: not written", name)
		}
	}
}

// TestAStateFileOnADiskThatHangs: the rules come into force, and the agent ends.
func TestAStateFileOnADiskThatHangs(t *testing.T) {
	node := build.MakeNode("x").UID("uid-1").Label("pool", "workers").Obj()
	kubeconfig, _ := fakeAPI(t, node)
	dir, err := os.MkdirTemp("", "hangs")
	cluster.Must(t, err)
	t.Cleanup(func() { // the write that hung may still end meanwhile
		for left := 100; left > 0 && os.RemoveAll(dir) != nil; left-- {
			time.Sleep(50 * time.Millisecond)
		}
	})
	rules, state := filepath.Join(dir, "rules.json"), filepath.Join(dir, "state.json")
	cluster.Must(t, syscall.Mkfifo(state+".new", 0o600)) // no process reads it: to open it hangs
	writeConfig(t, rules)
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig", kubeconfig, "--config", rules,
		"--state-file", state)
	a.defaults(t, "node_ready")
	writeConfig(t, rules, workers(v1alpha1.HealthCheck{Name: "schedulable"}))
	a.defaults(t, "schedulable")
	a.end()
	reader, err := os.OpenFile(state+".new", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	cluster.Must(t, err)
	cluster.Must(t, reader.Close())
}

// TestWithoutAConfiguration: what is judged by rules passes, and says in the body, the header and the metric that it
// could not judge.
func TestWithoutAConfiguration(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.json")
	cluster.Must(t, os.WriteFile(rules, []byte("{"), 0o600))
	kubeconfig, _ := fakeAPI(t, build.MakeNode("x").UID("uid-1").Label("pool", "workers").Obj())
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig", kubeconfig, "--config", rules)
	a.Is(t, 503, false, "the node has no Ready condition") // the node is known
	failOpen := func(check string) float64 {
		return a.Metric(t, `node_readiness_agent_check_fail_open{check="`+check+`"}`)
	}
	for _, check := range []string{"rules", "custom_conditions"} {
		got := a.Health(t, "?check="+check)
		if got.Code != 200 || got.FailOpen != check || got.Checks[0].FailOpen != "the agent has no configuration yet" {
			t.Errorf("%s: %+v", check, got)
		}
		if failOpen(check) != 1 {
			t.Errorf("%s: the metric does not tell", check)
		}
	}
	// No balancer asks for them again: else the gauge would stay at 1, and the alert would fire for ever.
	writeConfig(t, rules, workers(v1alpha1.HealthCheck{Name: "schedulable"}))
	a.defaults(t, "schedulable")
	if failOpen("rules") != 0 {
		t.Error("the metric tells of a result from before the configuration")
	}
}

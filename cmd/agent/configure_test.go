// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// writeConfig replaces the file by the configuration of these rules.
func writeConfig(t *testing.T, path string, rules ...config.Rule) {
	t.Helper()
	raw, err := config.New(rules...).Encode()
	cluster.Must(t, err)
	cluster.Must(t, os.WriteFile(path+".new", raw, 0o600))
	cluster.Must(t, os.Rename(path+".new", path))
}

// workers returns a rule for the nodes of the pool of workers, with these health checks.
func workers(checks ...v1alpha1.HealthCheck) config.Rule {
	return config.Rule{Name: "workers", UID: "1",
		NodeSelector: v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "workers"}},
		Health:       &v1alpha1.Health{Checks: checks},
	}
}

// defaults waits until /health runs these checks by default.
func (r *running) defaults(t *testing.T, want ...string) {
	t.Helper()
	cluster.Eventually(t, "the default checks", func() error {
		var got []string
		for _, c := range r.Health(t, "").Checks {
			got = append(got, c.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func TestTheRulesDecideWhatRuns(t *testing.T) {
	const node, own = "configured", "example.com/Listening"
	shared(t).Create(build.MakeNode(node).Obj())
	shared(t).SetReady(node, "True", "KubeletReady")
	endpoint, err := net.Listen("tcp", "127.0.0.1:0")
	cluster.Must(t, err)
	defer endpoint.Close()                             //nolint:errcheck // done with it
	port := int32(endpoint.Addr().(*net.TCPAddr).Port) //nolint:errcheck // it is one
	rule := workers(v1alpha1.HealthCheck{Name: "node_ready"}, v1alpha1.HealthCheck{Name: "rule:workers"})
	rule.Conditions = []v1alpha1.ConditionRequirement{{Type: own, RequiredStatus: "True"}}
	rule.Probes = []v1alpha1.Probe{{ConditionType: own, PeriodSeconds: new(int32(1)),
		TCPSocket: &v1alpha1.TCPSocketAction{Port: port}}}
	file := filepath.Join(t.TempDir(), "rules.json")
	writeConfig(t, file, rule)
	args := []string{"--kubeconfig", shared(t).Account("kube-system", "publishing", watching, patching), "--config", file}
	env := map[string]string{"NODE_NAME": node}
	a := startAgent(t, env, args...)
	a.defaults(t, "node_ready")
	if c := conditionOf(t, node, own); c != nil {
		t.Errorf("the rule does not match, and yet there is %+v", c)
	}

	shared(t).PatchNode(node, `{"metadata":{"labels":{"pool":"workers"}}}`)
	a.defaults(t, "node_ready", "rule:workers")
	becomes(t, node, own, "True", "NodegateProbeSucceeded")
	a.Is(t, 200, false, "")

	t.Run("a probe that is no longer configured takes its condition along", func(t *testing.T) {
		writeConfig(t, file)
		a.defaults(t, "node_ready")
		goes(t, node, own)
	})
	t.Run("also while no agent runs", func(t *testing.T) {
		writeConfig(t, file, rule)
		becomes(t, node, own, "True", "NodegateProbeSucceeded")
		a.end()
		writeConfig(t, file)
		startAgent(t, env, args...)
		goes(t, node, own)
		if c := conditionOf(t, node, "Ready"); c == nil || c.Status != "True" {
			t.Errorf("another's condition: %+v", c)
		}
	})
}

// TestANewAgentAnswersByItsRules: it does not know yet which rules match its node. A single answer that the node is
// ready would bring traffic to a node of which a check fails.
func TestANewAgentAnswersByItsRules(t *testing.T) {
	_, api := fakeAPI(t, build.MakeNode("x").UID("uid-1").Label("pool", "workers").
		Condition("Ready", "True", time.Now()).Obj())
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(500 * time.Millisecond)
		api.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	rules := filepath.Join(t.TempDir(), "rules.json")
	writeConfig(t, rules, workers(v1alpha1.HealthCheck{Name: "http:ingress", HTTPGet: &v1alpha1.HTTPGetAction{Port: 1}}))
	for _, drainStatus := range []string{"503", "404"} {
		a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig", cluster.Kubeconfig(t, slow.URL, nil, ""),
			"--config", rules, "--drain-status", drainStatus)
		if got := a.Health(t, ""); got.Code != 503 || got.Checks[0].Name != "http:ingress" {
			t.Errorf("with --drain-status=%s: %+v", drainStatus, got)
		}
	}
}

// goes waits until the node has no such condition.
func goes(t *testing.T, node string, conditionType corev1.NodeConditionType) {
	t.Helper()
	cluster.Eventually(t, string(conditionType)+" is removed", func() error {
		if c := conditionOf(t, node, conditionType); c != nil {
			return fmt.Errorf("there is %+v", c)
		}
		return nil
	})
}

// TestReadyzStopsARolloutOfAgentsThatCannotWork, and says why.
func TestReadyzStopsARolloutOfAgentsThatCannotWork(t *testing.T) {
	kubeconfig, _ := fakeAPI(t, build.MakeNode("x").UID("uid-1").Label("pool", "workers").Obj())
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.json")
	impossible := v1alpha1.HealthCheck{Name: "disk_pressure"}
	probe := workers(v1alpha1.HealthCheck{Name: "schedulable"})
	probe.Probes = []v1alpha1.Probe{{ConditionType: "example.com/A", File: &v1alpha1.FileAction{Path: "/"}}}
	ready := func(a *running, want int, text string) {
		t.Helper()
		cluster.Eventually(t, "/readyz", func() error {
			if code, body := a.Get(t, "probes", "/readyz"); code != want || !strings.Contains(body, text) {
				return fmt.Errorf("%d: %s", code, body)
			}
			return nil
		})
	}
	start := func(env map[string]string) *running {
		return startAgent(t, env, "--kubeconfig", kubeconfig, "--config", rules, "--host-root=none")
	}
	env := map[string]string{"NODE_NAME": "x"}
	for name, c := range map[string]struct {
		rule config.Rule
		text string
	}{
		"a check": {workers(impossible), "disk_pressure: the agent does not see the node's files"},
		"a probe": {probe, "the probe of example.com/A: the agent does not see the node's files"},
	} {
		t.Run(name, func(t *testing.T) {
			writeConfig(t, rules, c.rule)
			a := start(env)
			ready(a, 503, c.text)
			time.Sleep(2 * time.Second)
			ready(a, 503, c.text)
			writeConfig(t, rules, workers(v1alpha1.HealthCheck{Name: "schedulable"}))
			ready(a, 200, "")
			writeConfig(t, rules, workers(impossible)) // a change of a rule does not end a rollout
			a.defaults(t, "disk_pressure")
			ready(a, 200, "")
		})
	}
	t.Run("a configuration that cannot be used", func(t *testing.T) {
		cluster.Must(t, os.WriteFile(rules, []byte("{}"), 0o600))
		ready(start(env), 503, "the configuration")
	})
	t.Run("a field of a later version", func(t *testing.T) {
		raw, err := config.New(workers(v1alpha1.HealthCheck{Name: "schedulable"})).Encode()
		cluster.Must(t, err)
		cluster.Must(t, os.WriteFile(rules, []byte(strings.Replace(string(raw), `"name"`, `"later": 1, "name"`, 1)), 0o600))
		a := start(env)
		ready(a, 200, "")
		if got := a.Metric(t, "node_readiness_agent_config_unknown"); got != 1 {
			t.Errorf("the agent counts %v unknown fields, want 1", got)
		}
	})
	t.Run("no configuration yet: the operator starts later", func(t *testing.T) {
		cluster.Must(t, os.Remove(rules))
		ready(start(env), 200, "")
	})
	t.Run("no name of the node", func(t *testing.T) {
		ready(startAgent(t, nil, "--kubeconfig=/nonexistent"), 503, "NODE_NAME is not set")
	})
}

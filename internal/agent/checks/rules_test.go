// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/test/build"
)

func healthRule(name string, all ...v1alpha1.HealthCheck) config.Rule {
	return config.Rule{
		Name: name, Health: &v1alpha1.Health{Checks: all},
		Conditions: []v1alpha1.ConditionRequirement{{Type: "example.com/" + name, RequiredStatus: "True"}},
	}
}

func checkNamed(name string) v1alpha1.HealthCheck { return v1alpha1.HealthCheck{Name: name} }

// onNodeThatIs returns the environment of a node with this status of Ready, and the condition that rule a requires.
func onNodeThatIs(ready corev1.ConditionStatus) Environment {
	return Environment{Node: fixed{Object: build.MakeNode("n").Condition("Ready", ready, time.Now()).
		Condition("example.com/a", "True", time.Now()).Obj()}}
}

func TestForRules(t *testing.T) {
	a, b := healthRule("a", checkNamed("node_ready"), checkNamed("custom_conditions")),
		healthRule("b", checkNamed("node_ready"), checkNamed("rule:a"))
	asks := healthRule("asks", checkNamed("rule:a"), checkNamed("rule:x"))
	const lacking = "condition example.com/b has not been reported, must be True"
	noRule := FailedOpen("no rule in force defines this check: node_ready decides")
	for _, c := range []struct {
		name         string
		ready        corev1.ConditionStatus
		rules        []config.Rule
		wantDefaults []string
		want         map[string]Result
	}{
		{"no rule: node_ready", "True", nil, []string{"node_ready"}, map[string]Result{
			"node_ready": Pass(), "custom_conditions": Pass(), "rules": Pass(), "rule:x": noRule, "http:ingress": noRule,
			"rule:a": Pass(), // it matches other nodes
		}},
		{"a check that no rule defines asks whether the node is ready: else a typing error would be 200 for ever", "False",
			nil, []string{"node_ready"}, map[string]Result{
				"rule:x": Fail("Ready is False"), "http:ingress": Fail("Ready is False"),
			}},
		{"one rule", "True", []config.Rule{a}, []string{"node_ready", "custom_conditions"}, map[string]Result{
			"custom_conditions": Pass(), "rule:a": Pass(), "rules": Pass(), "rule:b": Pass(),
		}},
		{"the union of two, each check once, and what both require", "True", []config.Rule{a, b},
			[]string{"node_ready", "custom_conditions", "rule:a"}, map[string]Result{
				"custom_conditions": Fail(lacking), "rule:a": Pass(), "rule:b": Fail(lacking), "rules": Fail("b: " + lacking),
			}},
		{"a rule asks for one that matches other nodes, and for one that is not in force", "True", []config.Rule{asks},
			[]string{"rule:a", "rule:x"}, map[string]Result{"rule:a": Pass(), "rule:x": noRule}},
		{"the same on a node that is not ready", "False", []config.Rule{asks},
			[]string{"rule:a", "rule:x"}, map[string]Result{"rule:a": Pass(), "rule:x": Fail("Ready is False")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			suite, problems := ForRules(onNodeThatIs(c.ready), nil, c.rules, []config.Rule{a, b})
			if len(problems) > 0 {
				t.Error(problems)
			}
			if diff := cmp.Diff(c.wantDefaults, suite.Defaults()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for name, want := range c.want {
				if diff := cmp.Diff(want, suite.Group(name).Do(t.Context()).Result); diff != "" {
					t.Errorf("%s: -want +got:\n%s", name, diff)
				}
			}
		})
	}
}

func TestTheSameCheckOfTwoRulesMustPassForBoth(t *testing.T) {
	dir := t.TempDir()
	none := int32(0)
	disk := func(path string) v1alpha1.HealthCheck {
		return v1alpha1.HealthCheck{Name: "disk_pressure", Disk: &v1alpha1.DiskCheck{Paths: []string{path},
			MinFreePercent: &none, MinFreeInodesPercent: &none}}
	}
	run := func(paths ...string) Result {
		var rules []config.Rule
		for _, p := range paths {
			rules = append(rules, healthRule("r", disk(p)))
		}
		suite, _ := ForRules(Environment{}, nil, rules, rules)
		return suite.Group("disk_pressure").Do(t.Context()).Result
	}
	if r := run(dir, "/"); !r.Passed {
		t.Errorf("both pass: %+v", r)
	}
	for _, paths := range [][]string{{dir, "/missing"}, {"/missing", dir}, {"/missing", "/missing"}} {
		if diff := cmp.Diff(Fail("/missing: no such file or directory"), run(paths...)); diff != "" {
			t.Errorf("%v: -want +got:\n%s", paths, diff)
		}
	}
}

// TestAnEditOfARuleKeepsTheResultsOfOthers: else the requests to all nodes would wait for their slow checks at once.
func TestAnEditOfARuleKeepsTheResultsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cached := healthRule("cached", v1alpha1.HealthCheck{Name: "disk_pressure", PeriodSeconds: 60})
		before, _ := ForRules(Environment{}, nil, []config.Rule{cached}, nil)
		go before.Run(t.Context())
		synctest.Wait()
		after, _ := ForRules(Environment{}, before, []config.Rule{cached, healthRule("new", checkNamed("kubelet"))}, nil)
		if _, ok := after.Group("disk_pressure").Instant(); !ok {
			t.Error("the result is lost")
		}
	})
}

// TestAnUnknownCheckOfARuleFailsOpen: the operator is newer than the agent, which is no fault of the node.
func TestAnUnknownCheckOfARuleFailsOpen(t *testing.T) {
	suite, problems := ForRules(Environment{}, nil,
		[]config.Rule{healthRule("a", checkNamed("http:x"), checkNamed("later"))}, nil)
	if len(problems) != 2 || !strings.Contains(problems[1].Error(),
		`rule a: check later: this agent does not know the check "later"`) {
		t.Errorf("got %v", problems)
	}
	for _, name := range []string{"http:x", "later"} {
		if r := suite.Group(name).Do(t.Context()); !r.Passed || r.FailOpen == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

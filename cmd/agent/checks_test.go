// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/checks"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

type fixed checks.Node

func (f fixed) Current() (checks.Node, bool)     { return checks.Node(f), true }
func (f fixed) Wait(context.Context) checks.Node { return checks.Node(f) }

func healthRule(name string, all ...v1alpha1.HealthCheck) config.Rule {
	return config.Rule{
		Name: name, Health: &v1alpha1.Health{Checks: all},
		Conditions: []v1alpha1.ConditionRequirement{{Type: "example.com/" + name, RequiredStatus: "True"}},
	}
}

func checkNamed(name string) v1alpha1.HealthCheck { return v1alpha1.HealthCheck{Name: name} }

func checksEnvironment() checks.Environment {
	return checks.Environment{Node: fixed(checks.Node{Object: build.MakeNode("n").
		Condition("Ready", "True", time.Now()).Condition("example.com/a", "True", time.Now()).Obj()})}
}

func TestSuite(t *testing.T) {
	a, b := healthRule("a", checkNamed("node_ready"), checkNamed("custom_conditions")),
		healthRule("b", checkNamed("node_ready"), checkNamed("rule:a"))
	for _, c := range []struct {
		name         string
		rules        []config.Rule
		wantDefaults []string
		want         map[string]checks.Result
	}{
		{"no rule: node_ready", nil, []string{"node_ready"}, map[string]checks.Result{
			"node_ready": checks.Pass(), "custom_conditions": checks.Pass(), "rules": checks.Pass(),
			"rule:a":       checks.Pass(), // it matches other nodes
			"rule:x":       checks.FailedOpen("no rule in force defines this check: node_ready decides"),
			"http:ingress": checks.FailedOpen("no rule in force defines this check: node_ready decides"),
		}},
		{"one rule", []config.Rule{a}, []string{"node_ready", "custom_conditions"}, map[string]checks.Result{
			"custom_conditions": checks.Pass(), "rule:a": checks.Pass(), "rules": checks.Pass(), "rule:b": checks.Pass(),
		}},
		{"the union of two, each check once, and what both require", []config.Rule{a, b},
			[]string{"node_ready", "custom_conditions", "rule:a"}, map[string]checks.Result{
				"custom_conditions": checks.Fail("condition example.com/b has not been reported, must be True"),
				"rule:a":            checks.Pass(),
				"rule:b":            checks.Fail("condition example.com/b has not been reported, must be True"),
				"rules":             checks.Fail("b: condition example.com/b has not been reported, must be True"),
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			suite, problems := suiteFor(checksEnvironment(), nil, c.rules, []config.Rule{a, b})
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

// TestACheckThatNoRuleGivesAsksWhetherTheNodeIsReady: else a typing error would be 200 for ever.
func TestACheckThatNoRuleGivesAsksWhetherTheNodeIsReady(t *testing.T) {
	env := checks.Environment{Node: fixed(checks.Node{Object: build.MakeNode("n").
		Condition("Ready", "False", time.Now()).Obj()})}
	suite, _ := suiteFor(env, nil, nil, nil)
	for _, name := range []string{"http:ingress", "rule:ingress"} {
		if r := suite.Group(name).Do(t.Context()).Result; r.Passed || r.FailOpen != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if suite.Group("bogus") != nil {
		t.Error("another name is still unknown")
	}
}

func TestTheSameCheckOfTwoRulesMustPassForBoth(t *testing.T) {
	dir := t.TempDir()
	none := int32(0)
	disk := func(path string) v1alpha1.HealthCheck {
		return v1alpha1.HealthCheck{Name: "disk_pressure", Disk: &v1alpha1.DiskCheck{Paths: []string{path},
			MinimumFreePercent: &none, MinimumFreeInodesPercent: &none}}
	}
	run := func(paths ...string) checks.Result {
		var rules []config.Rule
		for _, p := range paths {
			rules = append(rules, healthRule("r", disk(p)))
		}
		suite, _ := suiteFor(checksEnvironment(), nil, rules, rules)
		return suite.Group("disk_pressure").Do(t.Context()).Result
	}
	if r := run(dir, "/"); !r.Passed {
		t.Errorf("both pass: %+v", r)
	}
	for _, paths := range [][]string{{dir, "/missing"}, {"/missing", dir}, {"/missing", "/missing"}} {
		if diff := cmp.Diff(checks.Fail("/missing: no such file or directory"), run(paths...)); diff != "" {
			t.Errorf("%v: -want +got:\n%s", paths, diff)
		}
	}
}

// TestAnEditOfARuleKeepsTheResultsOfOthers: else the requests to all nodes would wait for their slow checks at once.
func TestAnEditOfARuleKeepsTheResultsOfOthers(t *testing.T) {
	cached := healthRule("cached", v1alpha1.HealthCheck{Name: "disk_pressure", CacheSeconds: 60,
		Disk: &v1alpha1.DiskCheck{Paths: []string{t.TempDir()}}})
	before, _ := suiteFor(checksEnvironment(), nil, []config.Rule{cached}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go before.Run(ctx)
	cluster.Eventually(t, "a result", func() error {
		if _, ok := before.Group("disk_pressure").Instant(); !ok {
			return errors.New("none yet")
		}
		return nil
	})
	after, _ := suiteFor(checksEnvironment(), before, []config.Rule{cached, healthRule("new", checkNamed("kubelet"))}, nil)
	if _, ok := after.Group("disk_pressure").Instant(); !ok {
		t.Error("the result is lost")
	}
}

func TestACheckThatCannotWorkFailsAndIsTold(t *testing.T) {
	suite, problems := suiteFor(checksEnvironment(), nil,
		[]config.Rule{healthRule("a", checkNamed("http:x"), checkNamed("later"))}, nil)
	if len(problems) != 2 || !strings.Contains(problems[1].Error(),
		`rule a: check later: this agent does not know the check "later"`) {
		t.Errorf("got %v", problems)
	}
	for _, name := range []string{"http:x", "later"} {
		if r := suite.Group(name).Do(t.Context()); r.Passed {
			t.Errorf("%s passes", name)
		}
	}
}

func TestProbes(t *testing.T) {
	probe := func(name string, port int32) v1alpha1.Probe {
		return v1alpha1.Probe{ConditionType: name, TCPSocket: &v1alpha1.TCPSocketAction{Port: port}}
	}
	old := config.Rule{Name: "old", Probes: []v1alpha1.Probe{probe("example.com/A", 1)}}
	young := config.Rule{Name: "young", Probes: []v1alpha1.Probe{probe("example.com/A", 2), probe("example.com/B", 3),
		probe("Ready", 4)}}
	got, problems := probesFor(checksEnvironment(), nil, []config.Rule{old, young})
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
	if single, _ := probesFor(checksEnvironment(), nil, []config.Rule{old}); single[0].Identity != got[0].Identity {
		t.Error("it is not the older one's")
	}
}

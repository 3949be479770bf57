// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

func TestValidateWhatAgentsDo(t *testing.T) {
	port := &v1alpha1.TCPSocketAction{Port: 1}
	get := &v1alpha1.HTTPGetAction{Port: 1}
	for name, c := range map[string]struct {
		probes []v1alpha1.Probe
		checks []v1alpha1.HealthCheck
		want   []string
	}{
		"one of each kind": {
			probes: []v1alpha1.Probe{{ConditionType: "a", HTTPGet: get}, {ConditionType: "example.com/B", TCPSocket: port}, {ConditionType: "c", GRPC: &v1alpha1.GRPCAction{Port: 1}},
				{ConditionType: "d", File: &v1alpha1.FileAction{Path: "/x"}}, {ConditionType: "e", Check: "kubelet"}},
			checks: []v1alpha1.HealthCheck{{Name: "node_ready"}, {Name: "rules"}, {Name: "rule:a"}, {Name: "http:a", HTTPGet: get}, {Name: "disk_pressure", Disk: &v1alpha1.DiskCheck{}},
				{Name: "network", Network: &v1alpha1.NetworkCheck{}}, {Name: "custom_conditions", CustomConditions: &v1alpha1.CustomConditionsCheck{}}},
		},
		"a probe without a type":        {probes: []v1alpha1.Probe{{TCPSocket: port}}, want: []string{"Invalid spec.probes[0].conditionType"}},
		"one type twice":                {probes: []v1alpha1.Probe{{ConditionType: "a", TCPSocket: port}, {ConditionType: "a", TCPSocket: port}}, want: []string{"Invalid spec.probes[1].conditionType"}},
		"a type of two lines":           {probes: []v1alpha1.Probe{{ConditionType: "a\nb", TCPSocket: port}}, want: []string{"Invalid spec.probes[0].conditionType"}},
		"kubelet's condition":           {probes: []v1alpha1.Probe{{ConditionType: "Ready", TCPSocket: port}}, want: []string{"Invalid spec.probes[0].conditionType"}},
		"the cloud provider's":          {probes: []v1alpha1.Probe{{ConditionType: "NetworkUnavailable", TCPSocket: port}}, want: []string{"Invalid spec.probes[0].conditionType"}},
		"two actions":                   {probes: []v1alpha1.Probe{{ConditionType: "a", TCPSocket: port, Check: "kubelet"}}, want: []string{"Invalid spec.probes[0]"}},
		"an action of another version":  {probes: []v1alpha1.Probe{{ConditionType: "a"}}, want: []string{"Unsupported spec.probes[0]"}},
		"a check that is no probe":      {probes: []v1alpha1.Probe{{ConditionType: "a", Check: "node_ready"}}, want: []string{"Unsupported spec.probes[0].check"}},
		"health without checks":         {checks: []v1alpha1.HealthCheck{}, want: []string{"Invalid spec.health.checks"}},
		"one check twice":               {checks: []v1alpha1.HealthCheck{{Name: "kubelet"}, {Name: "kubelet"}}, want: []string{"Invalid spec.health.checks[1].name"}},
		"a check of another version":    {checks: []v1alpha1.HealthCheck{{Name: "weather"}}, want: []string{"Unsupported spec.health.checks[0].name"}},
		"a request that is not given":   {checks: []v1alpha1.HealthCheck{{Name: "http:a"}}, want: []string{"Invalid spec.health.checks[0].httpGet"}},
		"a request for another check":   {checks: []v1alpha1.HealthCheck{{Name: "kubelet", HTTPGet: get}}, want: []string{"Invalid spec.health.checks[0].httpGet"}},
		"parameters of another check":   {checks: []v1alpha1.HealthCheck{{Name: "kubelet", Disk: &v1alpha1.DiskCheck{}}}, want: []string{"Invalid spec.health.checks[0].disk"}},
		"parameters of another, all of": {checks: []v1alpha1.HealthCheck{{Name: "rules", Filesystem: &v1alpha1.FilesystemCheck{}, ContainerRuntime: &v1alpha1.ContainerRuntimeCheck{}}}, want: []string{"Invalid spec.health.checks[0].containerRuntime", "Invalid spec.health.checks[0].filesystem"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := valid()
			r.Spec.Probes = c.probes
			if c.checks != nil {
				r.Spec.Health = &v1alpha1.Health{Checks: c.checks}
			}
			var got []string
			for _, p := range Validate(&r.Spec) {
				got = append(got, p.Reason+" "+p.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHealthIsAnEffect(t *testing.T) {
	if got := Validate(&valid().Untainted().Health("kubelet").Spec); len(got) > 0 {
		t.Errorf("got %v", got)
	}
	if got := Validate(&valid().Untainted().Probe("a", 1).Spec); len(got) == 0 {
		t.Error("probes are no effect")
	}
}

func TestDisplaced(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	prober := func(name string, age int, conditions ...string) *build.RuleWrapper {
		r := build.MakeRule(name).UID("u-"+name).Created(now.Add(-time.Duration(age)*time.Hour)).Selector("pool", "a").Condition("x").Taint("example.com/"+name, "", "NoSchedule")
		for _, c := range conditions {
			r.Probe(c, 1)
		}
		return r
	}
	for name, c := range map[string]struct {
		rules []*build.RuleWrapper
		want  map[string]string
	}{
		"conditions of their own": {rules: []*build.RuleWrapper{prober("a", 1, "x"), prober("b", 2, "y")}},
		"the older one publishes": {rules: []*build.RuleWrapper{prober("a", 1, "x"), prober("b", 2, "x")}, want: map[string]string{"a": "condition x is published by the older rule b"}},
		"of two of one age, the first by name": {rules: []*build.RuleWrapper{prober("a", 1, "x"), prober("b", 1, "x")},
			want: map[string]string{"b": "condition x is published by the older rule a"}},
		"of several conditions, the first is told": {rules: []*build.RuleWrapper{prober("a", 1, "w", "x", "y"), prober("b", 2, "y", "x")},
			want: map[string]string{"a": "condition x is published by the older rule b"}},
		"one in dry-run publishes all the same": {rules: []*build.RuleWrapper{prober("a", 1, "x"), prober("b", 2, "x").DryRun(true)},
			want: map[string]string{"a": "condition x is published by the older rule b"}},
		"one that is being deleted does not": {rules: []*build.RuleWrapper{prober("a", 1, "x"), prober("b", 2, "x").Deleted(now)}},
		"one of other nodes does not":        {rules: []*build.RuleWrapper{prober("a", 1, "x"), prober("b", 2, "x").Selector("zone", "z")}},
		"no probes at all":                   {rules: []*build.RuleWrapper{prober("a", 1), prober("b", 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []*Rule
			for _, r := range c.rules {
				rules = append(rules, Compile(r.Obj(), nil, now))
			}
			got := NewSet(rules...).Displaced(map[string]string{"pool": "a"})
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

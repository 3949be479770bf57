// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	agentcfg "github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

func set(rules ...*build.RuleWrapper) *ruleset.Set {
	out := ruleset.NewSet()
	for _, r := range rules {
		out = out.With(ruleset.Compile(r.Obj(), nil, time.Now()))
	}
	return out
}

func TestCompile(t *testing.T) {
	probes := func() *build.RuleWrapper { return prober("a", "example.com/A") }
	both := func() *build.RuleWrapper { return probes().Health("disk_pressure") }
	entry := func(parts ...string) []agentcfg.Rule {
		r := both().NodeReadinessRule
		e := agentcfg.Rule{Name: r.Name, UID: r.UID, CreationTimestamp: r.CreationTimestamp,
			NodeSelector: r.Spec.NodeSelector}
		for _, p := range parts {
			switch p {
			case "probes":
				e.Probes = r.Spec.Probes
			case "health":
				e.Health = r.Spec.Health
			case "conditions":
				e.Conditions = r.Spec.Conditions
			case "elsewhere":
				e.Elsewhere = true
			}
		}
		return []agentcfg.Rule{e}
	}
	successor := prober("a").UID("another").MaxUnavailable("nonsense")
	successor.Annotations = map[string]string{v1alpha1.SuccessorAnnotation: string(prober("a").NodeReadinessRule.UID)}
	for name, c := range map[string]struct {
		rule     *build.RuleWrapper
		previous []agentcfg.Rule
		want     []agentcfg.Rule
	}{
		"probes and health": {both(), nil, entry("probes", "health", "conditions")},
		"evidence that only the operator sees": {both().Evidence(v1alpha1.Requirement{Name: "driver",
			CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.com"}}), nil,
			entry("probes", "health", "conditions", "elsewhere")},
		"a rule without either does not concern agents": {prober("a"), nil, []agentcfg.Rule{}},
		"probes alone bring no conditions along":        {probes(), nil, entry("probes")},
		"in dry-run: its probes are evidence":           {both().DryRun(true), nil, entry("probes")},
		"in dry-run, with health alone": {prober("a").Health("kubelet").DryRun(true), nil,
			[]agentcfg.Rule{}},
		"suspended: its verdict is the one in the record": {both().Suspend(true), nil, entry("probes", "health")},
		"being deleted": {both().Deleted(time.Now()), nil, []agentcfg.Rule{}},
		"frozen: as it was before": {prober("a").MaxUnavailable("nonsense"), entry("probes", "conditions"),
			entry("probes", "conditions")},
		"frozen, after a change of the API group": {successor, entry("probes", "conditions"), entry("probes", "conditions")},
		"frozen, and in dry-run by now": {both().MaxUnavailable("nonsense").DryRun(true),
			entry("probes", "health", "conditions"), entry("probes")},
		"frozen, and in dry-run by now, with health alone": {prober("a").MaxUnavailable("nonsense").DryRun(true),
			entry("health", "conditions"), []agentcfg.Rule{}},
		"frozen, and its former entry is unknown": {both().MaxUnavailable("nonsense"), nil, []agentcfg.Rule{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, compile(set(c.rule), agentcfg.New(c.previous...)).Rules); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestARuleInDryRunChecksNothing: also if it requires a rule that is suspended, and is suspended with it.
func TestARuleInDryRunChecksNothing(t *testing.T) {
	rules := func(dryRun bool) *ruleset.Set {
		return set(prober("first").Suspend(true), prober("a").After("first").Health("kubelet").DryRun(dryRun)).
			Resolve(ruleset.Known{}, ruleset.NewSet())
	}
	if got := compile(rules(false), nil).Rules; len(got) != 1 || got[0].Health == nil {
		t.Errorf("suspended with the other one: %+v", got)
	}
	if got := compile(rules(true), nil).Rules; len(got) > 0 {
		t.Errorf("in dry-run, too: %+v", got)
	}
}

func TestCompileIsStable(t *testing.T) {
	rules := []*build.RuleWrapper{prober("b", "example.com/B"), prober("a").Health("kubelet"),
		prober("old", "example.com/C").Created(time.Unix(1, 0)), prober("new", "example.com/D").Created(time.Now())}
	first, err := compile(set(rules...), nil).Encode()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := agentcfg.Decode(first)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range decoded.Rules {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"old", "a", "b", "new"}, names); diff != "" {
		t.Errorf("the oldest first, then by name: -want +got:\n%s", diff)
	}
	if again, err := decoded.Encode(); err != nil || string(again) != string(first) {
		t.Errorf("read and written again it is another file: %v\n%s", err, again)
	}
	for range 50 {
		rand.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		if again, err := compile(set(rules...), nil).Encode(); err != nil || string(again) != string(first) {
			t.Fatalf("another order makes another file: %v\n%s", err, again)
		}
	}
}

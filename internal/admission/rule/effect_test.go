// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
	"github.com/nodegate/nodegate/test/build"
)

// TestEffect: who writes a rule learns what happens to the nodes that are there.
func TestEffect(t *testing.T) {
	worker := func(name string) *build.NodeWrapper { return build.MakeNode(name).Label("example.com/pool", "workers") }
	nodes := []*corev1.Node{
		worker("c").Obj(), worker("a").Condition("example.com/CNIReady", corev1.ConditionTrue, now).Obj(),
		worker("b").Condition("example.com/CNIReady", corev1.ConditionFalse, now).Obj(),
		build.MakeNode("other").Obj(),
	}
	pods := v1alpha1.Requirement{Name: "cni", Pods: &v1alpha1.PodsRequirement{Namespace: "kube-system",
		Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"a": "b"}}}}
	with := func(r *build.RuleWrapper, status v1alpha1.NodeReadinessRuleStatus) *build.RuleWrapper {
		r.Status = status
		return r
	}
	rehearsed := v1alpha1.NodeReadinessRuleStatus{ObservedGeneration: 1, DryRunResults: &v1alpha1.DryRunResults{
		Summary: "Of 3 matching nodes, 2 would be tainted" + strings.Repeat(", and more", 30)}}
	theirs := ruleset.Foreign{{Key: "readiness.k8s.io/a", Effect: corev1.TaintEffectNoSchedule}: "b"}
	const (
		counts  = "spec: the rule is in force at once and selects 3 nodes, 2 of them not ready (b, c)"
		limit   = "; without maxUnavailable it may hold all of them at once"
		removes = "spec.dryRun: the operator removes the rule's taint from all nodes"
	)
	for name, c := range map[string]struct {
		old, rule *build.RuleWrapper
		foreign   ruleset.Foreign
		others    []*build.RuleWrapper
		prefixes  []string
		unwatched []string
		want      string // the beginning, or nothing
	}{
		"a new rule":   {rule: network("a"), want: counts + limit},
		"with a limit": {rule: network("a").MaxUnavailable("1"), want: counts},
		"one of each rack": {rule: network("a").LimitPer("example.com/rack", "1"),
			want: counts + "; its limits allow it to hold at most 1 of them at a time"},
		"a rate": {rule: network("a").Rate(1, 60),
			want: counts + "; without maxUnavailable it may hold all of them after"},
		"bootstrap-only":     {rule: network("a").BootstrapOnly(), want: counts},
		"in dry-run":         {rule: network("a").DryRun(true)},
		"suspended":          {rule: network("a").Suspend(true)},
		"without a taint":    {rule: network("a").Untainted().Health("node_ready")},
		"for new nodes only": {rule: network("a").ExistingNodes(v1alpha1.ExistingNodesNone)},
		"accepted":           {rule: accepting(network("a"))},
		"all of them ready": {rule: expression(build.MakeRule("a").Selector("example.com/pool", "workers"), "true").
			Taint("a.io/a", "", corev1.TaintEffectNoSchedule).BootstrapOnly()},
		"evidence from elsewhere": {rule: network("a").Evidence(pods).BootstrapOnly(),
			want: counts + "; kubectl nodegate simulate says which it holds"},
		"any evidence, also from elsewhere": {rule: network("a").Evidence(pods).AnyOf(),
			want: "spec: the rule is in force at once and selects 3 nodes; kubectl nodegate simulate"},
		"any evidence": {rule: expression(network("a"), "node.metadata.name == 'c'").AnyOf(),
			want: "spec: the rule is in force at once and selects 3 nodes, 1 of them not ready (b)"},

		"dry-run ends": {old: with(network("a").DryRun(true), rehearsed), rule: network("a"),
			want: "spec.dryRun: the rule is in force now; in dry-run it said: Of 3 matching nodes, 2 would be tainted"},
		"dry-run ends, and its results are old": {old: with(network("a").DryRun(true).Generation(2), rehearsed),
			rule: network("a"), want: counts + limit},
		"dry-run ends, and its results are of another spec": {
			old:  with(network("a").Selector("example.com/zone", "a").DryRun(true), rehearsed),
			rule: network("a"), want: counts + limit},
		"dry-run begins": {old: with(network("a"), v1alpha1.NodeReadinessRuleStatus{Nodes: &v1alpha1.NodeCounts{Held: 2}}),
			rule: network("a").DryRun(true), want: removes + ", and it holds 2 now; suspend: true would"},
		"dry-run begins at once": {old: network("a"), rule: network("a").DryRun(true), want: removes + "; suspend: true"},
		"another edit":           {old: network("a"), rule: network("a").ReadySeconds(1)},
		"with another controller's taint": {rule: network("a"), foreign: theirs,
			want: "spec.taint: the operator changes no node for the rule: rule b of another controller"},
		"in dry-run, with another controller's taint": {old: network("a"), rule: network("a").DryRun(true), foreign: theirs,
			want: "spec.taint: the operator changes no node"},
		"with another taint than that": {rule: network("c"), foreign: theirs, want: counts + limit},
		"resumed":                      {old: network("a").Suspend(true), rule: network("a")},

		"with a key that is not allowed": {rule: network("a"), prefixes: []string{"example.org/"},
			want: "spec.taint.key" + ": " + inert + `the key "readiness.k8s.io/a" is not allowed`},
		"with a key that is allowed": {rule: network("a"), prefixes: []string{"readiness.k8s.io/"}, want: counts + limit},
		"after a suspended rule": {rule: network("a").After("b"), others: []*build.RuleWrapper{network("b").Suspend(true)},
			want: "spec.requirements[0].ruleSatisfied" + ": " + inert + "it requires rule b, which is suspended"},
		"with DaemonSets that the operator may not watch": {unwatched: []string{"kube-system"},
			rule: network("a").MaxUnavailable("1").DaemonSets("kube-system")}, // another warning says that it is frozen
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(c.others...)
			set := w.Rules().WithForeign(c.foreign)
			w.Rules, w.KeyPrefixes = func() *ruleset.Set { return set }, c.prefixes
			w.Facts = func(context.Context, ...*ruleset.Rule) (lint.Facts, error) {
				return lint.Facts{Nodes: nodes, Unwatched: c.unwatched}, nil
			}
			got := ""
			for _, warning := range w.Handle(t.Context(), review(t, c.old, c.rule)).Warnings {
				if strings.HasPrefix(warning, "spec: ") || strings.Contains(warning, inert) ||
					strings.HasPrefix(warning, "spec.dryRun: ") {
					got = warning
				}
			}
			if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" || len(got) > longest ||
				c.want == counts && strings.Contains(got, limit) {
				t.Errorf("%d bytes: %q, want %q", len(got), got, c.want)
			}
		})
	}
}

func accepting(r *build.RuleWrapper) *build.RuleWrapper {
	r.Annotations = map[string]string{v1alpha1.AcceptAnnotation: string(lint.TakesEffect)}
	return r
}

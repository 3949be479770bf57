// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

const taint = "example.com/r"

func suspend(r *build.RuleWrapper) { r.Suspend(true) }
func resume(r *build.RuleWrapper)  { r.Suspend(false) }
func dryRun(r *build.RuleWrapper)  { r.DryRun(true) }

func is(status corev1.ConditionStatus, at int) func(*build.NodeWrapper) {
	return func(n *build.NodeWrapper) { n.Condition("A", status, second(at)) }
}

func overridden(by string) func(*build.NodeWrapper) {
	return func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, by) }
}

func untaint(n *build.NodeWrapper) { n.Untaint(taint) }
func relabel(n *build.NodeWrapper) { n.Unlabel("pool") }

const byOverride = "the node has the annotation " + v1alpha1.OverrideAnnotation

// TestASuspendedRuleIsFrozen has a row for each sentence about suspend.
func TestASuspendedRuleIsFrozen(t *testing.T) {
	fresh := func() *build.NodeWrapper { return node().Created(now) }
	held := scene{at: 1, tells: "held", want: "Held EvidenceMissing", taints: taint}
	suspended := scene{at: 10, tells: "suspended", rule: suspend, want: "Held Suspended", taints: taint, untouched: true}
	limited := rule("r", "A").MaxUnavailable("1").UnreadySeconds(30)

	for name, c := range map[string]struct {
		rule   *build.RuleWrapper
		node   *build.NodeWrapper
		scenes []scene
	}{
		"taint and record stay, though the node becomes ready": {rule("r", "A"), fresh(), []scene{held, suspended,
			{at: 20, tells: "ready", node: is("True", 20), want: "Held Suspended", taints: taint, untouched: true},
			{at: 21, tells: "restarted", restarted: true, want: "Held Suspended", taints: taint, untouched: true},
			{at: 30, tells: "resumed", rule: resume, want: "Ready EvidenceHolds"}}},
		"without a taint the verdict is all that stays": {rule("r", "A").Untainted().Health("rules"), fresh(), []scene{
			{at: 1, tells: "held", want: "Held EvidenceMissing", record: []string{`"health":"NotReady"`}},
			{at: 10, tells: "suspended, and ready", rule: suspend, node: is("True", 10), want: "Held Suspended",
				untouched: true}}},
		"new nodes, and recreated ones, are not tainted": {rule("r", "A").Suspend(true), fresh(), []scene{
			{at: 1, tells: "new", want: "Exempt Suspended", record: none},
			{at: 2, tells: "ready", node: is("True", 2), want: "Ready Suspended", record: none}}},
		"nodes in service are not tainted": {rule("r", "A"), fresh().Condition("A", "True", now), []scene{
			{at: 1, tells: "in service", want: "Ready EvidenceHolds"},
			{at: 10, tells: "suspended, and lost", rule: suspend, node: is("False", 10), want: "Exempt Suspended",
				untouched: true}}},
		"a foreign taint is not adopted": {rule("r", "A").Suspend(true), fresh().Taint(taint, "x", "NoSchedule"), []scene{
			{at: 1, tells: "new", want: "Exempt Suspended", taints: taint, record: none}}},
		"a node that is relabelled keeps what it has": {rule("r", "A"), fresh(), []scene{held, suspended,
			{at: 20, tells: "relabelled", node: relabel, taints: taint, untouched: true},
			{at: 30, tells: "resumed", rule: resume, record: none}}},
		"and an override Release still acts there": {rule("r", "A").Health("rules"), fresh(), []scene{held, suspended,
			{at: 20, tells: "relabelled", node: relabel, taints: taint, untouched: true},
			{at: 21, tells: "released", node: overridden("Release"), want: "OverrideRelease", why: byOverride,
				record: []string{`{"rule":"r","counted":true}`}},
			{at: 22, tells: "again", want: "OverrideRelease", untouched: true},
			{at: 30, tells: "resumed", rule: resume, record: none}}},
		"an override Release still acts": {rule("r", "A").Health("rules"), fresh(), []scene{held, suspended,
			{at: 20, tells: "released", node: overridden("Release"), want: "Exempt OverrideRelease",
				record: []string{`"health":"Ready"`}},
			{at: 21, tells: "again", want: "Exempt OverrideRelease", untouched: true},
			{at: 30, tells: "no longer", node: func(n *build.NodeWrapper) { n.Unannotate(v1alpha1.OverrideAnnotation) },
				want: "Exempt Suspended", untouched: true}}},
		"an override Hold does not": {rule("r", "A").Suspend(true), fresh(), []scene{
			{at: 1, tells: "hold", node: overridden("Hold"), want: "Exempt Suspended", record: none}}},
		"and not at resume, where maxUnavailable has no room": {limited, fresh(), []scene{held, suspended,
			{at: 20, tells: "removed", node: untaint, want: "Exempt Suspended", untouched: true},
			{at: 60, tells: "resumed", rule: resume, full: true, asks: true, want: "Exempt OverBudget", record: none},
			{at: 61, tells: "room", asks: true, want: "Held EvidenceMissing", taints: taint}}},
		"a taint that is removed by hand after resume is put back": {rule("r", "A").MaxUnavailable("1"), fresh(), []scene{
			held, suspended, {at: 20, tells: "resumed", rule: resume, want: "Held EvidenceMissing", taints: taint},
			{at: 30, tells: "removed", node: untaint, asks: true, want: "Held EvidenceMissing", taints: taint}}},
		"deletion cleans up": {rule("r", "A"), fresh(), []scene{held, suspended,
			{at: 20, tells: "deleted", rule: func(r *build.RuleWrapper) { r.Deleted(second(20)) }, record: none}}},
		"resume is within maxUnavailable": {rule("r", "A").MaxUnavailable("1").Suspend(true), fresh(), []scene{
			{at: 1, tells: "new", want: "Exempt Suspended", record: none},
			{at: 60, tells: "resumed", rule: resume, full: true, asks: true, want: "Exempt OverBudget"},
			{at: 61, tells: "restarted", restarted: true, rule: inForceFrom(60), asks: true, want: "Held EvidenceMissing",
				taints: taint}}},
		"resume is within unreadySeconds": {build.WrapRule(limited.Obj()), fresh().Condition("A", "True", now), []scene{
			{at: 1, tells: "in service", want: "Ready EvidenceHolds"},
			{at: 10, tells: "suspended", rule: suspend, want: "Ready Suspended", untouched: true},
			{at: 50, tells: "lost", node: is("False", 50), want: "Exempt Suspended", untouched: true},
			{at: 60, tells: "resumed", rule: resume, want: "Ready UnreadyWindow"},
			{at: 79, tells: "one second early", want: "Ready UnreadyWindow"},
			{at: 80, tells: "at its end", asks: true, want: "Held EvidenceMissing", taints: taint}}},
		"a rule that requires a suspended one is frozen like it": {rule("r", "A"), fresh(), []scene{held,
			{at: 10, tells: "suspended", frozen: "Suspended", node: is("True", 10), want: "Held Suspended", taints: taint,
				untouched: true},
			{at: 20, tells: "released", node: overridden("Release"), want: "Exempt OverrideRelease"}}},
		"a rule that is frozen for another reason holds, and an override Release still acts": {rule("r", "A"), fresh(),
			[]scene{held,
				{at: 10, tells: "frozen", frozen: "EvidenceUnavailable", node: is("True", 10), want: "Held NotInForce",
					taints: taint, untouched: true},
				{at: 11, tells: "released", node: overridden("Release"), want: "Exempt OverrideRelease", why: byOverride}}},
		"an invalid selector selects no node, and an override Release still acts": {rule("r", "A"), fresh(), []scene{held,
			{at: 10, tells: "edited", rule: func(r *build.RuleWrapper) { r.SelectorExpression("pool", "Later") },
				taints: taint, untouched: true},
			{at: 11, tells: "released", node: overridden("Release"), want: "OverrideRelease", why: byOverride}}},
		"a rule on which another controller acts releases nothing": {rule("r", "A"), fresh(), []scene{held,
			{at: 10, tells: "another controller", frozen: ruleset.ReasonOtherController, node: overridden("Release"),
				want: "Held NotInForce", taints: taint, untouched: true},
			{at: 11, tells: "in dry-run", rule: dryRun, want: "Held NotInForce", taints: taint, untouched: true}}},
		"a rule that is frozen, and then in dry-run, releases all nodes": {rule("r", "A").Health("rules"), fresh(),
			[]scene{held,
				{at: 10, tells: "frozen", frozen: "EvidenceUnavailable", want: "Held NotInForce", taints: taint, untouched: true},
				{at: 11, tells: "in dry-run", rule: dryRun, want: "Exempt NotInForce", why: "the rule is in dry-run",
					record: none},
				{at: 12, tells: "again", want: "Exempt NotInForce", untouched: true}}},
		"and forgets a published condition that is gone": {rule("r", "A").Publish("example.com/P"), fresh().
			Annotation("nodegate.io/rule-uid-of-r", `{"rule":"r","published":"example.com/P"}`), []scene{
			{at: 1, tells: "frozen", frozen: "EvidenceUnavailable", want: "Exempt NotInForce", untouched: true},
			{at: 2, tells: "in dry-run", rule: dryRun, want: "Exempt NotInForce", record: none}}},
		"a rule that is frozen does not call a ready node Ready": {rule("r", "A"), fresh().Condition("A", "True", now),
			[]scene{{at: 1, tells: "frozen", frozen: "EvidenceUnavailable", want: "Exempt NotInForce", record: none}}},
		"an override Release leaves what the record says of the node's start": {rule("r", "A"), fresh(), []scene{held,
			{at: 2, tells: "released", node: overridden("Release"), want: "Exempt OverrideRelease"},
			{at: 3, tells: "lifted", node: overridden("x"), want: "Held EvidenceMissing", taints: taint}, suspended,
			{at: 20, tells: "released again", node: overridden("Release"), want: "Exempt OverrideRelease",
				record: []string{`{"rule":"r","counted":true}`}}}},
		"and of its release": {rule("r", "A"), fresh(), []scene{
			{at: 1, tells: "ready", node: is("True", 1), want: "Ready EvidenceHolds"},
			{at: 2, tells: "lost", node: is("False", 2), want: "Held EvidenceMissing", taints: taint}, suspended,
			{at: 20, tells: "released", node: overridden("Release"), want: "Exempt OverrideRelease",
				record: []string{`{"rule":"r","released":"2026-01-02T03:04:06Z"}`}}}},
		"and nothing on a node from before the rule that had its taint": {rule("r", "A"), node().Created(second(-9000)).
			Taint(taint, "", corev1.TaintEffectNoSchedule), []scene{held,
			{at: 20, tells: "released", frozen: "EvidenceUnavailable", node: overridden("Release"),
				want: "Exempt OverrideRelease", record: none}}},
		"an invalid rule in dry-run, too": {rule("r", "A"), fresh(), []scene{held,
			{at: 10, tells: "in dry-run, and invalid", rule: func(r *build.RuleWrapper) {
				dryRun(r.Evidence(v1alpha1.Requirement{Name: "future"}))
			}, want: "Exempt NotInForce"}}},
	} {
		t.Run(name, func(t *testing.T) { tell(t, c.rule, c.node, c.scenes...) })
	}
}

// inForceFrom makes the status say since when the rule is in force.
func inForceFrom(at int) func(*build.RuleWrapper) {
	return func(r *build.RuleWrapper) {
		hash := ruleset.Compile(r.Obj(), nil, now).SelectorHash
		r.StatusCondition(v1alpha1.ConditionReady, "True").StatusInForce(second(at), hash)
		r.Status.ObservedGeneration = r.NodeReadinessRule.Generation
	}
}

func TestTheGuardOfASuspendedRule(t *testing.T) {
	guarding := func() *build.RuleWrapper { return rule("r", "Ready").Untainted().EvictionGuard(60) }
	lost := func(n *build.NodeWrapper) {
		n.Condition("Ready", "Unknown", second(10)).Taint(corev1.TaintNodeUnreachable, "", corev1.TaintEffectNoExecute)
	}
	const unreachable = corev1.TaintNodeUnreachable
	for name, scenes := range map[string][]scene{
		"does not begin": {{at: 1, tells: "suspended", rule: suspend, want: "Ready Suspended"},
			{at: 11, tells: "lost", node: lost, want: "Exempt Suspended", taints: unreachable, untouched: true},
			{at: 30, tells: "resumed: from now on", rule: resume, want: "Held EvidenceMissing Active", taints: unreachable,
				record: []string{`"guardedSince":"2026-01-02T03:04:35Z"`}}},
		"denies until its end, and evicts at resume": {
			{at: 11, tells: "lost", node: lost, want: "Held EvidenceMissing Active", taints: unreachable},
			{at: 20, tells: "suspended", rule: suspend, want: "Exempt Suspended Active", taints: unreachable, untouched: true},
			{at: 69, tells: "one second early", want: "Exempt Suspended Active", taints: unreachable, untouched: true},
			{at: 70, tells: "at its end", want: "Exempt Suspended Ended", taints: unreachable, untouched: true},
			{at: 80, tells: "resumed", rule: resume, want: "Held EvidenceMissing Ended", taints: unreachable,
				record: []string{`"guardEnded"`}}},
		"of a frozen rule denies until its end, too": {
			{at: 11, tells: "lost", node: lost, want: "Held EvidenceMissing Active", taints: unreachable},
			{at: 69, tells: "frozen", frozen: "x", want: "Exempt NotInForce Active", taints: unreachable, untouched: true},
			{at: 70, tells: "at its end", want: "Exempt NotInForce Ended", taints: unreachable, untouched: true}},
		"and also if it is in dry-run": {
			{at: 11, tells: "lost", node: lost, want: "Held EvidenceMissing Active", taints: unreachable},
			{at: 20, tells: "frozen", frozen: "x", rule: dryRun, want: "Exempt NotInForce Active", taints: unreachable,
				untouched: true},
			{at: 69, tells: "one second early", want: "Exempt NotInForce Active", taints: unreachable, untouched: true},
			{at: 70, tells: "at its end", want: "Exempt NotInForce Ended", taints: unreachable, untouched: true}},
	} {
		t.Run(name, func(t *testing.T) { tell(t, guarding(), inService(), scenes...) })
	}
}

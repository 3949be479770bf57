// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"testing"

	"github.com/nodegate/nodegate/internal/gate"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

func TestReleasedAndCounted(t *testing.T) {
	cases := map[string]struct {
		rule     *build.RuleWrapper
		node     *build.NodeWrapper
		released bool
		counted  bool
	}{
		"a new node is not": {node: fresh()},
		"one whose record says so is": {node: fresh().Annotation(recordKey, released(1)),
			released: true, counted: true},
		"one that is claimed again still is": {node: fresh().Annotation(recordKey, reclaimed(5, 1)),
			released: true, counted: true},
		"one that is claimed, and never was, is not":           {node: fresh().Annotation(recordKey, claimed(1))},
		"one that was there before the rule is":                {node: old(), released: true, counted: true},
		"one that was there before, and is claimed, is not":    {node: old().Annotation(recordKey, claimed(-86000))},
		"one that was there before, and has the taint, is not": {node: old().Taint(key, "", noSchedule)},
		"one that was there before, and has the taint for another rule, is": {
			node: old().Taint(key, "", noSchedule).Annotation("readiness.node.x-k8s.io/rule-u-disk",
				`{"taint":"readiness.k8s.io/cni=:NoSchedule"}`), released: true, counted: true,
		},
		"one that has completed is": {node: fresh().Annotation(markerKey, isMarked), released: true,
			counted: true},
		"one that has completed, by the older form, is": {node: fresh().Annotation(oldMarker, isMarked), released: true,
			counted: true},
		"a cordoned one is not counted":          {node: old().Cordoned(), released: true},
		"a terminating one is not counted":       {node: old().Terminating(at(0)), released: true},
		"one that does not match is not counted": {node: old().Unlabel("pool"), released: true},
		"a rebooted one is, until it is started over": {
			rule: rule().RearmOnReboot(), node: fresh().BootID("b2").Annotation(recordKey,
				`{"released":"`+stamp(1)+`","bootID":"b1"}`), released: true, counted: true,
		},
		"one of the second in which the rule was put in force is not": {node: fresh().Created(at(-86400))},
		"one of the second before is": {node: fresh().Created(at(-86401)), released: true,
			counted: true},
		"a record from before the node's creation does not say so": {node: fresh().Annotation(recordKey, released(-1))},
		"a record from its very second does": {node: fresh().Annotation(recordKey, released(0)),
			released: true, counted: true},
		"a record from a clock a little ahead does": {node: fresh().Annotation(recordKey, released(10+300)),
			released: true, counted: true},
		"a record from further ahead does not": {node: fresh().Annotation(recordKey,
			released(10+301))},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.rule == nil {
				c.rule = rule()
			}
			got := gate.StateOf(ruleset.Compile(c.rule.Obj(), nil, at(10)), c.node.Obj(), at(10))
			if diff := cmp.Diff([]bool{c.released, c.counted}, []bool{got.Released, got.Counted}); diff != "" {
				t.Errorf("released, counted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMaxUnavailable(t *testing.T) {
	limited := func() *build.RuleWrapper { return rule().MaxUnavailable("30%") }
	inService := func() *build.NodeWrapper { return fresh().Annotation(recordKey, released(1)) }
	cases := map[string]struct {
		rule  *build.RuleWrapper
		node  *build.NodeWrapper
		needs bool
	}{
		"a claim on a node in service needs room":        {limited(), inService(), true},
		"one on a node that was there before does":       {limited(), old(), true},
		"one on a node that was never released does not": {limited(), fresh(), false},
		"one on a cordoned node does not":                {limited(), inService().Cordoned(), false},
		"a claim that stands does not": {limited(),
			fresh().Taint(key, "pending", noSchedule).Annotation(recordKey, reclaimed(5, 1)), false},
		"an adoption does not": {limited(), old().Taint(key, "kubelet", noSchedule),
			false},
		"a rule without a limit does not ask": {rule(), inService(), false},
		"a node that is ready does not ask": {limited(), inService().Condition(cni, "True", at(0)),
			false},
		"a node within unreadySeconds does not ask yet": {limited().UnreadySeconds(30),
			inService().Condition(cni, "False", at(8)), false},
		"a suspended rule does not ask":                    {limited().Suspend(true), inService(), false},
		"a rule in dry-run does not ask":                   {limited().DryRun(true), inService(), false},
		"a limit of 0 asks, and is refused by the counter": {rule().MaxUnavailable("0"), inService(), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.rule)
			_, decisions := w.decide(c.node.Obj(), at(10))
			if d := decisions[0]; d.Limited != c.needs {
				t.Errorf("needs budget: %t, want %t (%s %s)", d.Limited, c.needs, d.State, d.Reason)
			}
			w.pass(c.node.Obj(), at(10))
			w.refuse = []string{"cni"}
			after, _, decisions := w.pass(c.node.Obj(), at(10))
			if c.needs && (decisions[0].Claim || gate.Find(after, decisions[0].Rule.Taint) != nil) {
				t.Error("it was refused, and claims anyway")
			}
		})
	}
}

func TestRefuseLeavesOtherDecisionsAlone(t *testing.T) {
	w := newWorld(t, rule())
	_, decisions := w.decide(fresh().Obj(), at(1))
	if diff := cmp.Diff(true, decisions[0].Refuse().Claim); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
}

func TestExistingNodes(t *testing.T) {
	none := func() *build.RuleWrapper { return rule().ExistingNodes(v1alpha1.ExistingNodesNone) }
	play(t, map[string]story{
		"All: an existing node that is not ready is held": on(old(), rules(rule().ExistingNodes("All")),
			then(1, "seen", "Held EvidenceMissing", added, recorded(reclaimed(1, 1))),
		),
		"All is the default, and the limit refuses": on(old(), rules(rule().MaxUnavailable("0")),
			then(1, "refused", "Exempt OverBudget", refuse{"cni"}),
			then(2, "granted", "Held EvidenceMissing", refuse{}, added, recorded(counted(reclaimed(2, 2)))),
			then(3, "not asked again", "Held EvidenceMissing", refuse{"cni"}),
		),
		"None: exempt until it is ready for the first time": on(old(), rules(none()),
			then(1, "missing", "Exempt ExistingNode"),
			then(2, "False", "Exempt ExistingNode", restarted, unready(2)),
			then(3, "ready for the first time", "Ready EvidenceHolds", ready(3), recorded(released(3))),
			then(4, "not ready", "Held EvidenceMissing", unready(4), added),
		),
		"None: a node of the second in which the rule was put in force is new": on(fresh().Created(at(-86400)),
			rules(none()),
			then(1, "seen", "Held EvidenceMissing", added),
		),
		"None: a taint that it has already is managed": on(old().Taint(key, "kubelet", noSchedule), rules(none()),
			then(1, "seen", "Held EvidenceMissing", adopted, tainted{key + "=kubelet:NoSchedule"}),
			then(2, "ready", "Ready EvidenceHolds", ready(2), removed),
		),
		"None: an existing node that is relabelled in is exempt, a new one is not": on(old().Unlabel("pool"), rules(none()),
			then(1, "in", "Exempt ExistingNode", func(n *build.NodeWrapper) { n.Label("pool", "workers") }),
		),
		"None: the end of dry-run makes the nodes that are there existing ones": on(fresh(), rules(none()),
			then(1, "new: held", "Held EvidenceMissing", added),
			then(2, "dry-run", "Exempt DryRun", rules(none().Generation(2).DryRun(true)), removed),
			then(3, "back", "Exempt ExistingNode", rules(none().Generation(3))),
		),
		"None with bootstrap-only: completes when ready for the first time": on(old(), rules(none().BootstrapOnly()),
			then(1, "missing", "Exempt ExistingNode"),
			then(2, "ready", "Ready EvidenceHolds", ready(2), change("completed cni")),
			then(3, "not ready", "Ready BootstrapCompleted", unready(3)),
		),
	})
}

// incumbents is what the incumbent controller leaves: a status with its nodes and no condition of ours.
func incumbents() *build.RuleWrapper {
	return build.MakeRule("cni").UID("u-cni").Generation(1).Created(at(-86400)).Selector("pool", "workers").
		Condition(cni).Taint(key, "pending", noSchedule).StatusNode("n1", v1alpha1.TaintPresent)
}

func TestTakingOver(t *testing.T) {
	play(t, map[string]story{
		"a node that it holds is held on": on(fresh().Taint(key, "theirs", noSchedule), rules(incumbents()),
			then(1, "seen", "Held EvidenceMissing", tainted{key + "=theirs:NoSchedule"}, recorded(claimed(1))),
		),
		"a node that no longer matches is cleaned": on(fresh().Unlabel("pool").Taint(key, "theirs", noSchedule),
			rules(incumbents()),
			then(1, "seen", "cni", removed),
		),
		"so it is where the rule is deleted": on(fresh().Taint(key, "theirs", noSchedule),
			rules(incumbents().Deleted(at(0))),
			then(1, "seen", "cni", removed),
		),
		"and where it is in dry-run": on(fresh().Taint(key, "theirs", noSchedule), rules(incumbents().DryRun(true)),
			then(1, "seen", "Exempt DryRun", removed),
		),
		"a node that is not in its status, and does not match, keeps what it has": on(
			build.MakeNode("n2").UID("n2").Created(at(0)).Taint(key, "theirs", noSchedule), rules(incumbents()),
			then(1, "seen", "", tainted{key + "=theirs:NoSchedule"}),
		),
		"what our own status says is cut short, and not read that way": on(
			fresh().Unlabel("pool").Taint(key, "theirs", noSchedule), rules(rule().StatusNode("n1", v1alpha1.TaintPresent)),
			then(1, "seen", "", tainted{key + "=theirs:NoSchedule"}),
		),
		"what its status tells of, and is not there, is not what another rule puts there now": on(
			old().Condition(cni, "True", at(-900)), rules(incumbents(), ruleOf("disk", disk, key)),
			then(1, "seen", "Ready EvidenceHolds, disk Held EvidenceMissing", change("added disk "+pending), tainted{pending}),
		),
		"what an invalid rule inherits stands, also where another rule claims it": on(fresh().
			Taint(key, "pending", noSchedule).Condition(disk, "True", at(0)).
			Annotation("readiness.node.x-k8s.io/rule-u-disk", `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			rules(func() *build.RuleWrapper { r := incumbents(); r.Spec.EnforcementMode = "sometimes"; return r }(),
				ruleOf("disk", disk, key)),
			then(1, "seen", "Held NotInForce, disk Ready EvidenceHolds", written),
		),
		"another rule's claim is not what the incumbent left": on(fresh().Taint(key, "pending", noSchedule).
			Annotation("readiness.node.x-k8s.io/rule-u-disk", `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			rules(incumbents().Deleted(at(0)), ruleOf("disk", disk, key)),
			then(1, "seen", "cni, disk Held EvidenceMissing", tainted{pending}),
		),
	})
}

func TestLeftover(t *testing.T) {
	inherited := build.MakeRule("cni").UID("u-cni").Taint(key, "", noSchedule).StatusNode("n1", v1alpha1.TaintPresent)
	cases := map[string]struct {
		rule *build.RuleWrapper
		node *build.NodeWrapper
		want bool
	}{
		"nothing": {rule(), fresh().Taint(key, "",
			noSchedule).Annotation("readiness.node.x-k8s.io/rule-u-other", "{}"), false},
		"a record":                   {rule(), fresh().Annotation(recordKey, "garbage"), true},
		"a marker":                   {rule(), fresh().Annotation(markerKey, ""), true},
		"a marker of the older form": {rule(), fresh().Annotation(oldMarker, ""), true},
		"a taint of the incumbent":   {inherited, fresh().Taint(key, "", noSchedule), true},
		"no taint of the incumbent":  {inherited, fresh(), false},
		"a taint of the incumbent that another rule claims by now": {
			inherited, fresh().Taint(key, "", noSchedule).Annotation("readiness.node.x-k8s.io/rule-u-disk",
				`{"taint":"readiness.k8s.io/cni=:NoSchedule"}`), false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := gate.Leftover(ruleset.Compile(c.rule.Obj(), nil, start), c.node.Obj()); got != c.want {
				t.Errorf("leftover is %t, want %t", got, c.want)
			}
		})
	}
}

func TestConcerns(t *testing.T) {
	cases := map[string]struct {
		rule *build.RuleWrapper
		node *build.NodeWrapper
		want bool
	}{
		"a node that matches": {rule(), fresh(), true},
		"one that does not":   {rule(), fresh().Unlabel("pool").Taint(key, "", noSchedule), false},
		"one with a record":   {rule(), fresh().Unlabel("pool").Annotation(recordKey, "{"), true},
		"one with a marker":   {rule(), fresh().Unlabel("pool").Annotation(oldMarker, ""), true},
		"one in the incumbent's status": {build.MakeRule("cni").UID("u-cni").Selector("a", "b").Taint(key, "",
			noSchedule).StatusNode("n1", v1alpha1.TaintPresent), fresh(), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, n := ruleset.Compile(c.rule.Obj(), nil, start), c.node.Obj()
			s := gate.StateOf(r, n, start)
			if got := s.Concerns(r, n); got != c.want {
				t.Errorf("concerns is %t, want %t", got, c.want)
			}
		})
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

func TestReleasedAndCounted(t *testing.T) {
	cases := map[string]struct {
		rule     *build.RuleWrapper
		node     *build.NodeWrapper
		released bool
		counted  bool
	}{
		"a new node is not": {node: Fresh()},
		"one whose record says so is": {node: Fresh().Annotation(RecordKey, Released(1)),
			released: true, counted: true},
		"one that is claimed again still is": {node: Fresh().Annotation(RecordKey, Reclaimed(5, 1)),
			released: true, counted: true},
		"one that is claimed, and never was, is not":           {node: Fresh().Annotation(RecordKey, Claimed(1))},
		"one that was there before the rule is":                {node: Old(), released: true, counted: true},
		"one that was there before, and is claimed, is not":    {node: Old().Annotation(RecordKey, Claimed(-86000))},
		"one that was there before, and has the taint, is not": {node: Old().Taint(Key, "", NoSchedule)},
		"one that was there before, and has the taint for another rule, is": {
			node: Old().Taint(Key, "", NoSchedule).Annotation("readiness.node.x-k8s.io/rule-u-disk",
				`{"taint":"readiness.k8s.io/cni=:NoSchedule"}`), released: true, counted: true,
		},
		"one that has completed is": {node: Fresh().Annotation(MarkerKey, IsMarked), released: true,
			counted: true},
		"one that has completed, by the older form, is": {node: Fresh().Annotation(OldMarker, IsMarked), released: true,
			counted: true},
		"a cordoned one is not counted":          {node: Old().Cordoned(), released: true},
		"a terminating one is not counted":       {node: Old().Terminating(At(0)), released: true},
		"one that does not match is not counted": {node: Old().Unlabel("pool"), released: true},
		"a rebooted one is, until it is started over": {
			rule: Rule().RearmOnReboot(), node: Fresh().BootID("b2").Annotation(RecordKey,
				`{"released":"`+Stamp(1)+`","bootID":"b1"}`), released: true, counted: true,
		},
		"one of the second in which the rule was put in force is not": {node: Fresh().Created(At(-86400))},
		"one of the second before is": {node: Fresh().Created(At(-86401)), released: true,
			counted: true},
		"a record from before the node's creation does not say so": {node: Fresh().Annotation(RecordKey, Released(-1))},
		"a record from its very second does": {node: Fresh().Annotation(RecordKey, Released(0)),
			released: true, counted: true},
		"a record from a clock a little ahead does": {node: Fresh().Annotation(RecordKey, Released(10+300)),
			released: true, counted: true},
		"a record from further ahead does not": {node: Fresh().Annotation(RecordKey,
			Released(10+301))},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.rule == nil {
				c.rule = Rule()
			}
			got := gate.StateOf(ruleset.Compile(c.rule.Obj(), nil, At(10)), c.node.Obj(), At(10))
			if diff := cmp.Diff([]bool{c.released, c.counted}, []bool{got.Released, got.Counted}); diff != "" {
				t.Errorf("released, counted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMaxUnavailable(t *testing.T) {
	limited := func() *build.RuleWrapper { return Rule().MaxUnavailable("30%") }
	inService := func() *build.NodeWrapper { return Fresh().Annotation(RecordKey, Released(1)) }
	cases := map[string]struct {
		rule  *build.RuleWrapper
		node  *build.NodeWrapper
		needs bool
	}{
		"a claim on a node in service needs room":        {limited(), inService(), true},
		"one on a node that was there before does":       {limited(), Old(), true},
		"one on a node that was never released does not": {limited(), Fresh(), false},
		"one on a cordoned node does not":                {limited(), inService().Cordoned(), false},
		"a claim that stands does not": {limited(),
			Fresh().Taint(Key, "pending", NoSchedule).Annotation(RecordKey, Reclaimed(5, 1)), false},
		"an adoption does not": {limited(), Old().Taint(Key, "kubelet", NoSchedule),
			false},
		"a rule without a limit does not ask": {Rule(), inService(), false},
		"a node that is ready does not ask": {limited(), inService().Condition(CNI, "True", At(0)),
			false},
		"a node within unreadySeconds does not ask yet": {limited().UnreadySeconds(30),
			inService().Condition(CNI, "False", At(8)), false},
		"a suspended rule does not ask":                    {limited().Suspend(true), inService(), false},
		"a rule in dry-run does not ask":                   {limited().DryRun(true), inService(), false},
		"a limit of 0 asks, and is refused by the counter": {Rule().MaxUnavailable("0"), inService(), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := NewWorld(t, c.rule)
			_, decisions := w.Decide(c.node.Obj(), At(10))
			if d := decisions[0]; d.Limited != c.needs {
				t.Errorf("needs budget: %t, want %t (%s %s)", d.Limited, c.needs, d.State, d.Reason)
			}
			w.Pass(c.node.Obj(), At(10))
			w.Refuse = []string{"cni"}
			after, _, decisions := w.Pass(c.node.Obj(), At(10))
			if c.needs && (decisions[0].Claim || gate.Find(after, decisions[0].Rule.Taint) != nil) {
				t.Error("it was refused, and claims anyway")
			}
		})
	}
}

func TestRefuseLeavesOtherDecisionsAlone(t *testing.T) {
	w := NewWorld(t, Rule())
	_, decisions := w.Decide(Fresh().Obj(), At(1))
	if diff := cmp.Diff(true, decisions[0].Refuse().Claim); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
}

func TestExistingNodes(t *testing.T) {
	none := func() *build.RuleWrapper { return Rule().ExistingNodes(v1alpha1.ExistingNodesNone) }
	Play(t, map[string]Story{
		"All: an existing node that is not ready is held": On(Old(), Rules(Rule().ExistingNodes("All")),
			Then(1, "seen", "Held EvidenceMissing", Added, Recorded(Reclaimed(1, 1))),
		),
		"All is the default, and the limit refuses": On(Old(), Rules(Rule().MaxUnavailable("0")),
			Then(1, "refused", "Exempt OverBudget", Refuse{"cni"}),
			Then(2, "granted", "Held EvidenceMissing", Refuse{}, Added, Recorded(Counted(Reclaimed(2, 2)))),
			Then(3, "not asked again", "Held EvidenceMissing", Refuse{"cni"}),
		),
		"None: exempt until it is ready for the first time": On(Old(), Rules(none()),
			Then(1, "missing", "Exempt ExistingNode"),
			Then(2, "False", "Exempt ExistingNode", Restarted, Unready(2)),
			Then(3, "ready for the first time", "Ready EvidenceHolds", Ready(3), Recorded(Released(3))),
			Then(4, "not ready", "Held EvidenceMissing", Unready(4), Added),
		),
		"None: a node of the second in which the rule was put in force is new": On(Fresh().Created(At(-86400)),
			Rules(none()),
			Then(1, "seen", "Held EvidenceMissing", Added),
		),
		"None: a taint that it has already is managed": On(Old().Taint(Key, "kubelet", NoSchedule), Rules(none()),
			Then(1, "seen", "Held EvidenceMissing", Adopted, Tainted{Key + "=kubelet:NoSchedule"}),
			Then(2, "ready", "Ready EvidenceHolds", Ready(2), Removed),
		),
		"None: an existing node that is relabelled in is exempt, a new one is not": On(Old().Unlabel("pool"), Rules(none()),
			Then(1, "in", "Exempt ExistingNode", func(n *build.NodeWrapper) { n.Label("pool", "workers") }),
		),
		"None: the end of dry-run makes the nodes that are there existing ones": On(Fresh(), Rules(none()),
			Then(1, "new: held", "Held EvidenceMissing", Added),
			Then(2, "dry-run", "Exempt DryRun", Rules(none().Generation(2).DryRun(true)), Removed),
			Then(3, "back", "Exempt ExistingNode", Rules(none().Generation(3))),
		),
		"None with bootstrap-only: completes when ready for the first time": On(Old(), Rules(none().BootstrapOnly()),
			Then(1, "missing", "Exempt ExistingNode"),
			Then(2, "ready", "Ready EvidenceHolds", Ready(2), Change("completed cni")),
			Then(3, "not ready", "Ready BootstrapCompleted", Unready(3)),
		),
	})
}

func TestTakingOver(t *testing.T) {
	Play(t, map[string]Story{
		"a node that it holds is held on": On(Fresh().Taint(Key, "theirs", NoSchedule), Rules(Incumbents()),
			Then(1, "seen", "Held EvidenceMissing", Tainted{Key + "=theirs:NoSchedule"}, Recorded(Claimed(1))),
		),
		"a node that no longer matches is cleaned": On(Fresh().Unlabel("pool").Taint(Key, "theirs", NoSchedule),
			Rules(Incumbents()),
			Then(1, "seen", "cni", Removed),
		),
		"so it is where the rule is deleted": On(Fresh().Taint(Key, "theirs", NoSchedule),
			Rules(Incumbents().Deleted(At(0))),
			Then(1, "seen", "cni", Removed),
		),
		"and where it is in dry-run": On(Fresh().Taint(Key, "theirs", NoSchedule), Rules(Incumbents().DryRun(true)),
			Then(1, "seen", "Exempt DryRun", Removed),
		),
		"a node that is not in its status, and does not match, keeps what it has": On(
			build.MakeNode("n2").UID("n2").Created(At(0)).Taint(Key, "theirs", NoSchedule), Rules(Incumbents()),
			Then(1, "seen", "", Tainted{Key + "=theirs:NoSchedule"}),
		),
		"what our own status says is cut short, and not read that way": On(
			Fresh().Unlabel("pool").Taint(Key, "theirs", NoSchedule), Rules(Rule().StatusNode("n1", v1alpha1.TaintPresent)),
			Then(1, "seen", "", Tainted{Key + "=theirs:NoSchedule"}),
		),
		"what its status tells of, and is not there, is not what another rule puts there now": On(
			Old().Condition(CNI, "True", At(-900)), Rules(Incumbents(), RuleOf("disk", Disk, Key)),
			Then(1, "seen", "Ready EvidenceHolds, disk Held EvidenceMissing", Change("added disk "+Pending), Tainted{Pending}),
		),
		"what an invalid rule inherits stands, also where another rule claims it": On(Fresh().
			Taint(Key, "pending", NoSchedule).Condition(Disk, "True", At(0)).
			Annotation("readiness.node.x-k8s.io/rule-u-disk", `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			Rules(func() *build.RuleWrapper { r := Incumbents(); r.Spec.EnforcementMode = "sometimes"; return r }(),
				RuleOf("disk", Disk, Key)),
			Then(1, "seen", "Held NotInForce, disk Ready EvidenceHolds", Written),
		),
		"another rule's claim is not what the incumbent left": On(Fresh().Taint(Key, "pending", NoSchedule).
			Annotation("readiness.node.x-k8s.io/rule-u-disk", `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			Rules(Incumbents().Deleted(At(0)), RuleOf("disk", Disk, Key)),
			Then(1, "seen", "cni, disk Held EvidenceMissing", Tainted{Pending}),
		),
	})
}

func TestLeftover(t *testing.T) {
	inherited := build.MakeRule("cni").UID("u-cni").Taint(Key, "", NoSchedule).StatusNode("n1", v1alpha1.TaintPresent)
	cases := map[string]struct {
		rule *build.RuleWrapper
		node *build.NodeWrapper
		want bool
	}{
		"nothing": {Rule(), Fresh().Taint(Key, "",
			NoSchedule).Annotation("readiness.node.x-k8s.io/rule-u-other", "{}"), false},
		"a record":                   {Rule(), Fresh().Annotation(RecordKey, "garbage"), true},
		"a marker":                   {Rule(), Fresh().Annotation(MarkerKey, ""), true},
		"a marker of the older form": {Rule(), Fresh().Annotation(OldMarker, ""), true},
		"a taint of the incumbent":   {inherited, Fresh().Taint(Key, "", NoSchedule), true},
		"no taint of the incumbent":  {inherited, Fresh(), false},
		"a taint of the incumbent that another rule claims by now": {
			inherited, Fresh().Taint(Key, "", NoSchedule).Annotation("readiness.node.x-k8s.io/rule-u-disk",
				`{"taint":"readiness.k8s.io/cni=:NoSchedule"}`), false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := gate.Leftover(ruleset.Compile(c.rule.Obj(), nil, Start), c.node.Obj()); got != c.want {
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
		"a node that matches": {Rule(), Fresh(), true},
		"one that does not":   {Rule(), Fresh().Unlabel("pool").Taint(Key, "", NoSchedule), false},
		"one with a record":   {Rule(), Fresh().Unlabel("pool").Annotation(RecordKey, "{"), true},
		"one with a marker":   {Rule(), Fresh().Unlabel("pool").Annotation(OldMarker, ""), true},
		"one in the incumbent's status": {build.MakeRule("cni").UID("u-cni").Selector("a", "b").Taint(Key, "",
			NoSchedule).StatusNode("n1", v1alpha1.TaintPresent), Fresh(), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, n := ruleset.Compile(c.rule.Obj(), nil, Start), c.node.Obj()
			s := gate.StateOf(r, n, Start)
			if got := s.Concerns(r, n); got != c.want {
				t.Errorf("concerns is %t, want %t", got, c.want)
			}
		})
	}
}

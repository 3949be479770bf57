// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
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
			node: Old().Taint(Key, "", NoSchedule).Annotation("nodegate.io/rule-u-disk",
				`{"taint":"readiness.k8s.io/cni=:NoSchedule"}`), released: true, counted: true,
		},
		"one that has completed is": {node: Fresh().Annotation(MarkerKey, IsMarked), released: true,
			counted: true},
		"a cordoned one is not counted": {node: Old().Cordoned(), released: true},
		"an overridden one is not counted": {node: Old().Annotation(v1alpha1.OverrideAnnotation, "Release"),
			released: true},
		"it is when the override has ended": {released: true, counted: true,
			node: Old().Annotation(v1alpha1.OverrideAnnotation, "Release;until="+Stamp(10))},
		"one that used the limit before is": {released: true, counted: true, node: Fresh().Annotation(RecordKey,
			Counted(Reclaimed(5, 1))).Annotation(v1alpha1.OverrideAnnotation, "Hold")},
		"one that was claimed for an override is not, before the limit allows it": {released: true,
			node: Fresh().Annotation(RecordKey, Forced(Reclaimed(5, 1)))},
		"a terminating one is not counted":       {node: Old().Terminating(At(0)), released: true},
		"one that does not match is not counted": {node: Old().Unlabel("pool"), released: true},
		"a record from a clock a little ahead does": {node: Fresh().Annotation(RecordKey, Released(10+300)),
			released: true, counted: true},
		"a record from further ahead, too": {node: Fresh().Annotation(RecordKey, Released(10+301)),
			released: true, counted: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.rule == nil {
				c.rule = Rule()
			}
			got := nodeview.StateOf(ruleset.Compile(c.rule.Obj(), nil, At(10)), c.node.Obj(), At(10))
			if diff := cmp.Diff([]bool{c.released, c.counted}, []bool{got.Released, got.Counted}); diff != "" {
				t.Errorf("released, counted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExistingNodes(t *testing.T) {
	none := func() *build.RuleWrapper { return Rule().ExistingNodes(v1alpha1.ExistingNodesNone) }
	Play(t, map[string]Story{
		"All is the default, and the limit refuses": On(Old(), Rules(Rule().MaxUnavailable("0")),
			Then(1, "refused", "Exempt OverBudget", Refuse{"cni"}),
			Then(2, "granted", "Held EvidenceMissing", Refuse{}, Added, Recorded(Found(Counted(Reclaimed(2, 2))))),
			Then(3, "not asked again", "Held EvidenceMissing", Refuse{"cni"}),
		),
		"None: exempt until it is ready for the first time": On(Old(), Rules(none()),
			Then(1, "missing", "Exempt ExistingNode"),
			Then(2, "False", "Exempt ExistingNode", Restarted, Unready(2)),
			Then(3, "ready for the first time", "Ready EvidenceHolds", Ready(3), Recorded(Found(Released(3)))),
			Then(4, "not ready", "Held EvidenceMissing", Unready(4), Added),
		),
		"a node that was in service when the rule began to match it stays an existing one": On(
			Fresh().Annotation(RecordKey, `{"rule":"cni","existing":true}`), Rules(Rule().MaxUnavailable("1")),
			Then(1, "refused", "Exempt OverBudget", Refuse{"cni"}),
			Then(2, "refused again", "Exempt OverBudget"),
		),
		"None: a taint that it has already is managed": On(Old().Taint(Key, "kubelet", NoSchedule), Rules(none()),
			Then(1, "seen", "Held EvidenceMissing", Adopted, Tainted{Key + "=kubelet:NoSchedule"}),
			Then(2, "ready", "Ready EvidenceHolds", Ready(2), Removed),
		),
		"None: the end of dry-run makes the nodes that are there existing ones": On(Fresh(), Rules(none()),
			Then(1, "new: held", "Held EvidenceMissing", Added),
			Then(2, "dry-run", "Exempt DryRun", Rules(none().Generation(2).DryRun(true)), Removed),
			Then(3, "back", "Exempt ExistingNode", Rules(none().Generation(3))),
		),
	})
}

func TestTakingOver(t *testing.T) {
	Play(t, map[string]Story{
		"a node that it holds is held on": On(Fresh().Taint(Key, "theirs", NoSchedule), Rules(Incumbents()),
			Then(1, "seen", "Held EvidenceMissing", Tainted{Key + "=theirs:NoSchedule"}, Recorded(Claimed(1))),
		),
		"what the other controller removes in the second in which it is taken over is added again": On(
			Old().Taint(Key, "theirs", NoSchedule), Rules(Rule().ExistingNodes(v1alpha1.ExistingNodesNone)),
			Then(1, "taken over", "Held EvidenceMissing", Adopted, Tainted{Key + "=theirs:NoSchedule"}),
			Then(1, "opened too early", "Held EvidenceMissing", Edit(func(n *build.NodeWrapper) { n.Spec.Taints = nil }),
				Added),
		),
		"a node that no longer matches is cleaned": On(Fresh().Unlabel("pool").Taint(Key, "theirs", NoSchedule),
			Rules(Incumbents()),
			Then(1, "seen", "cni", Removed),
		),
		"another client's taint stays on a node that no longer matches": On(Fresh().Unlabel("pool").
			Taint(Key, "theirs", NoSchedule).Annotation(RecordKey, Released(1)), Rules(Rule()),
			Then(2, "seen", "cni", Tainted{Key + "=theirs:NoSchedule"}, Clean),
		),
		"a node that is not in its status, and does not match, keeps what it has": On(
			build.MakeNode("n2").UID("n2").Created(At(0)).Taint(Key, "theirs", NoSchedule), Rules(Incumbents()),
			Then(1, "seen", "", Tainted{Key + "=theirs:NoSchedule"}),
		),
		"what our own status says is cut short, and not read that way": On(
			Fresh().Unlabel("pool").Taint(Key, "theirs", NoSchedule), Rules(func() *build.RuleWrapper {
				r := Rule().StatusNode("n1", v1alpha1.TaintPresent)
				r.Status.NodeEvaluations[0].State = v1alpha1.NodeStateHeld
				return r
			}()),
			Then(1, "seen", "", Tainted{Key + "=theirs:NoSchedule"}),
		),
		"what its status tells of, and is not there, is not what another rule puts there now": On(
			Old().Condition(CNI, "True", At(-900)), Rules(Incumbents(), RuleOf("disk", Disk, Key)),
			Then(1, "seen", "Ready EvidenceHolds, disk Held EvidenceMissing", Change("added disk "+Pending), Tainted{Pending}),
		),
		"what an invalid rule inherits stands, also where another rule claims it": On(Fresh().
			Taint(Key, "pending", NoSchedule).Condition(Disk, "True", At(0)).
			Annotation("nodegate.io/rule-u-disk", `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			Rules(func() *build.RuleWrapper { r := Incumbents(); r.Spec.EnforcementMode = "sometimes"; return r }(),
				RuleOf("disk", Disk, Key)),
			Then(1, "seen", "Held NotInForce, disk Ready EvidenceHolds", Written),
		),
		"another rule's claim is not what the incumbent left": On(Fresh().Taint(Key, "pending", NoSchedule).
			Annotation("nodegate.io/rule-u-disk", `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
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
			NoSchedule).Annotation("nodegate.io/rule-u-other", "{}"), false},
		"a record":                          {Rule(), Fresh().Annotation(RecordKey, "garbage"), true},
		"a marker, which outlives the rule": {Rule(), Fresh().Annotation(MarkerKey, "").Annotation(OldMarker, ""), false},
		"a marker":                          {removing(Rule()), Fresh().Annotation(MarkerKey, ""), true},
		"a marker of the older form":        {removing(Rule()), Fresh().Annotation(OldMarker, ""), true},
		"a taint of the incumbent":          {inherited, Fresh().Taint(Key, "", NoSchedule), true},
		"no taint of the incumbent":         {inherited, Fresh(), false},
		"a taint of the incumbent that another rule claims by now": {
			inherited, Fresh().Taint(Key, "", NoSchedule).Annotation("nodegate.io/rule-u-disk",
				`{"taint":"readiness.k8s.io/cni=:NoSchedule"}`), false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := nodeview.Leftover(ruleset.Compile(c.rule.Obj(), nil, Start), c.node.Obj()); got != c.want {
				t.Errorf("leftover is %t, want %t", got, c.want)
			}
		})
	}
}

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
		"one that is claimed, and never was, is not":             {node: fresh().Annotation(recordKey, claimed(1))},
		"one that was there before the rule is":                  {node: old(), released: true, counted: true},
		"one that was there before, and is claimed, is not":      {node: old().Annotation(recordKey, claimed(-86000))},
		"one that was there before, and bears the taint, is not": {node: old().Taint(key, "", noSchedule)},
		"one that was there before, and bears the taint for another rule, is": {
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
		"a rebooted one is not, until it is again": {
			rule: rule().RearmOnReboot(), node: fresh().BootID("b2").Annotation(recordKey,
				`{"released":"`+stamp(1)+`","bootID":"b1"}`),
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

func TestBreaker(t *testing.T) {
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
		"a suspended rule does not ask":                                {limited().Suspend(true), inService(), false},
		"a rule in dry-run does not ask":                               {limited().DryRun(true), inService(), false},
		"a limit of 0 asks, and is refused by whoever keeps the count": {rule().MaxUnavailable("0"), inService(), true},
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
				t.Error("it was refused, and claims all the same")
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
		"All: an existing node that is not ready is held": {
			rules: []*build.RuleWrapper{rule().ExistingNodes("All")}, node: old(),
			steps: []step{{tells: "seen", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
				changes:     []string{"added cni " + pending},
				annotations: map[string]string{recordKey: reclaimed(1, 1)}}},
		},
		"All is the default, and the breaker refuses": {
			rules: []*build.RuleWrapper{rule().MaxUnavailable("0")}, node: old(),
			steps: []step{
				{tells: "refused", at: 1, refuse: []string{"cni"}, states: []string{"cni Exempt OverBudget"}, quiet: true},
				{tells: "granted", at: 2, refuse: []string{}, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending},
					annotations: map[string]string{recordKey: counted(reclaimed(2, 2))}},
				{tells: "not asked again", at: 3, refuse: []string{"cni"}, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, quiet: true},
			},
		},
		"None: exempt until it is ready for the first time": {
			rules: []*build.RuleWrapper{none()}, node: old(),
			steps: []step{
				{tells: "missing", at: 1, states: []string{"cni Exempt ExistingNode"}, quiet: true},
				{tells: "False", at: 2, restart: true, node: unready(2), states: []string{"cni Exempt ExistingNode"}, quiet: true},
				{tells: "ready for the first time", at: 3, node: ready(3), states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: released(3)}},
				{tells: "not ready", at: 4, node: unready(4), taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending}},
			},
		},
		"None: a node of the second in which the rule was put in force is new": {
			rules: []*build.RuleWrapper{none()}, node: fresh().Created(at(-86400)),
			steps: []step{{tells: "seen", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
				changes: []string{"added cni " + pending}}},
		},
		"None: a taint that it bears already is managed": {
			rules: []*build.RuleWrapper{none()}, node: old().Taint(key, "kubelet", noSchedule),
			steps: []step{
				{tells: "seen", at: 1, taints: []string{key + "=kubelet:NoSchedule"}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"adopted cni " + pending}},
				{tells: "ready", at: 2, node: ready(2), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"None: an existing node that is relabelled in is exempt, a new one is not": {
			rules: []*build.RuleWrapper{none()}, node: old().Unlabel("pool"),
			steps: []step{{tells: "in", at: 1, node: func(n *build.NodeWrapper) { n.Label("pool", "workers") },
				states: []string{"cni Exempt ExistingNode"}, quiet: true}},
		},
		"None: the end of dry-run makes the nodes that are there existing ones": {
			rules: []*build.RuleWrapper{none()}, node: fresh(),
			steps: []step{
				{tells: "new: held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "dry-run", at: 2, rules: []*build.RuleWrapper{none().Generation(2).DryRun(true)},
					states: []string{"cni Exempt DryRun"}, changes: []string{"removed cni " + pending}},
				{tells: "back", at: 3, rules: []*build.RuleWrapper{none().Generation(3)},
					states: []string{"cni Exempt ExistingNode"}, quiet: true},
			},
		},
		"None with bootstrap-only: completes when ready for the first time": {
			rules: []*build.RuleWrapper{none().BootstrapOnly()}, node: old(),
			steps: []step{
				{tells: "missing", at: 1, states: []string{"cni Exempt ExistingNode"}, quiet: true},
				{tells: "ready", at: 2, node: ready(2), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"completed cni"}},
				{tells: "not ready", at: 3, node: unready(3), states: []string{"cni Ready BootstrapCompleted"}, quiet: true},
			},
		},
	})
}

func TestTakingOver(t *testing.T) {
	// What the incumbent controller leaves: a status with its nodes and no condition of ours, taints without records.
	incumbents := func() *build.RuleWrapper {
		return build.MakeRule("cni").UID("u-cni").Generation(1).Created(at(-86400)).Selector("pool", "workers").
			Condition(cni).Taint(key, "pending", noSchedule).StatusNode("n1", v1alpha1.TaintPresent)
	}
	play(t, map[string]story{
		"a node that it holds is held on": {
			rules: []*build.RuleWrapper{incumbents()}, node: fresh().Taint(key, "theirs", noSchedule),
			steps: []step{{tells: "seen", at: 1, taints: []string{key + "=theirs:NoSchedule"},
				states: []string{"cni Held EvidenceMissing"}, annotations: map[string]string{recordKey: claimed(1)}}},
		},
		"a node that no longer matches is cleaned": {
			rules: []*build.RuleWrapper{incumbents()}, node: fresh().Unlabel("pool").Taint(key, "theirs", noSchedule),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni"}, changes: []string{"removed cni " + pending}}},
		},
		"so it is where the rule is deleted": {
			rules: []*build.RuleWrapper{incumbents().Deleted(at(0))}, node: fresh().Taint(key, "theirs", noSchedule),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni"}, changes: []string{"removed cni " + pending}}},
		},
		"and where it is in dry-run": {
			rules: []*build.RuleWrapper{incumbents().DryRun(true)}, node: fresh().Taint(key, "theirs", noSchedule),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Exempt DryRun"},
				changes: []string{"removed cni " + pending}}},
		},
		"a suspended rule holds on, and takes it off when the node is ready": {
			rules: []*build.RuleWrapper{incumbents().Suspend(true)}, node: fresh().Taint(key, "theirs", noSchedule),
			steps: []step{
				{tells: "seen", at: 1, taints: []string{key + "=theirs:NoSchedule"}, states: []string{"cni Held EvidenceMissing"}},
				{tells: "ready", at: 2, node: ready(2), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"a node that is not in its status, and does not match, keeps what it has": {
			rules: []*build.RuleWrapper{incumbents()}, node: build.MakeNode("n2").UID("n2").Created(at(0)).Taint(key, "theirs",
				noSchedule),
			steps: []step{{tells: "seen", at: 1, taints: []string{key + "=theirs:NoSchedule"}, quiet: true}},
		},
		"what our own status says is cut short, and not read that way": {
			rules: []*build.RuleWrapper{rule().StatusNode("n1", v1alpha1.TaintPresent)},
			node:  fresh().Unlabel("pool").Taint(key, "theirs", noSchedule),
			steps: []step{{tells: "seen", at: 1, taints: []string{key + "=theirs:NoSchedule"}, quiet: true}},
		},
		"what its status tells of, and is not there, is not what another rule puts there now": {
			rules: []*build.RuleWrapper{incumbents(), ruleOf("disk", disk, key)}, node: old().Condition(cni, "True", at(-900)),
			steps: []step{
				{tells: "seen", at: 1, taints: []string{pending}, states: []string{"cni Ready EvidenceHolds",
					"disk Held EvidenceMissing"}, changes: []string{"added disk " + pending}},
			},
		},
		"what an invalid rule inherits stands, also where another rule claims it": {
			rules: []*build.RuleWrapper{func() *build.RuleWrapper {
				r := incumbents()
				r.Spec.EnforcementMode = "sometimes"
				return r
			}(), ruleOf("disk", disk, key)},
			node: fresh().Taint(key, "pending", noSchedule).Condition(disk, "True",
				at(0)).Annotation("readiness.node.x-k8s.io/rule-u-disk", `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			steps: []step{{tells: "seen", at: 1, taints: []string{pending}, states: []string{"cni Held NotInForce",
				"disk Ready EvidenceHolds"}}},
		},
		"another rule's claim is not what the incumbent left": {
			rules: []*build.RuleWrapper{incumbents().Deleted(at(0)), ruleOf("disk", disk, key)},
			node: fresh().Taint(key, "pending", noSchedule).Annotation("readiness.node.x-k8s.io/rule-u-disk",
				`{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			steps: []step{{tells: "seen", at: 1, taints: []string{pending}, states: []string{"cni", "disk Held EvidenceMissing"},
				quiet: true}},
		},
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

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

const (
	goneKey    = "readiness.node.x-k8s.io/rule-u-gone"
	goneMarker = "readiness.k8s.io/bootstrap-completed-u-gone"
	goneTaint  = "example.com/gone=x:NoSchedule"
	goneRecord = `{"rule":"gone","taint":"example.com/gone=x:NoSchedule","since":"2026-01-02T15:00:00Z"}`
)

func TestSweep(t *testing.T) {
	bystander := func() *build.NodeWrapper {
		return crowd(fresh().Condition(cni, "True", at(0)), 0, 3).Annotation("mine", "x")
	}
	held := func() *build.NodeWrapper {
		return bystander().Taint("example.com/gone", "x", noSchedule).Annotation(goneKey, goneRecord)
	}
	is := []string{"cni Ready EvidenceHolds"}
	mine := func(more ...string) map[string]string {
		out := map[string]string{"mine": "x", recordKey: released(1)}
		for i := 0; i+1 < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	reserved := `{"taint":"node.kubernetes.io/unreachable=:NoExecute"}`
	play(t, map[string]story{
		"claim and record of a rule that is gone go": {
			rules: []*build.RuleWrapper{rule()}, node: held(),
			steps: []step{{tells: "gone", at: 1, gone: []string{"u-gone"}, taints: crowded(0, 3), states: is,
				changes: []string{"removed - " + goneTaint}, annotations: mine()}},
		},
		"those of a rule that is not known, and not known to be gone, stay": {
			rules: []*build.RuleWrapper{rule()}, node: held(),
			steps: []step{
				{tells: "not known", at: 1, taints: append(crowded(0, 3), goneTaint), states: is,
					annotations: mine(goneKey, goneRecord)},
				{tells: "gone", at: 2, gone: []string{"u-gone"}, taints: crowded(0, 3), states: is,
					changes: []string{"removed - " + goneTaint}, annotations: mine()},
			},
		},
		"the taint stays, where a rule that is not known to be gone claims the one that another leaves": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Taint(key, "pending", noSchedule).Annotation(recordKey,
				claimed(0)).
				Annotation(goneKey, `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			steps: []step{
				{tells: "ready", at: 1, node: ready(1), taints: []string{pending}, states: is},
				{tells: "gone", at: 2, gone: []string{"u-gone"}, states: is, changes: []string{"removed cni " + pending}},
			},
		},
		"a claim that is not known does not bring a taint back": {
			rules: []*build.RuleWrapper{rule()}, node: held().Untaint("example.com/gone"),
			steps: []step{{tells: "not known", at: 1, taints: crowded(0, 3), states: is,
				annotations: mine(goneKey, goneRecord)}},
		},
		"a claim that is not known does not keep a known one from bringing it": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Annotation(goneKey,
				`{"taint":"readiness.k8s.io/cni=x:NoSchedule"}`),
			steps: []step{{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
				changes: []string{"added cni " + pending}}},
		},
		"a forged record does not take off a taint of Kubernetes": {
			rules: []*build.RuleWrapper{rule()}, node: bystander().Taint("node.kubernetes.io/unreachable", "",
				noExecute).Annotation(goneKey, reserved),
			steps: []step{{tells: "gone", at: 1, gone: []string{"u-gone"}, taints: append(crowded(0, 3),
				"node.kubernetes.io/unreachable=:NoExecute"), states: is, annotations: mine()}},
		},
		"a forged record of a rule that is known does not either": {
			rules: []*build.RuleWrapper{rule()}, node: bystander().Taint("node.kubernetes.io/unreachable", "",
				noExecute).Annotation(recordKey, reserved),
			steps: []step{{tells: "seen", at: 1, taints: append(crowded(0, 3), "node.kubernetes.io/unreachable=:NoExecute"),
				states: is, annotations: mine()}},
		},
		"a record that cannot be read goes once its rule is gone": {
			rules: []*build.RuleWrapper{rule()}, node: bystander().Annotation(goneKey, "{{{"),
			steps: []step{
				{tells: "not known", at: 1, taints: crowded(0, 3), states: is, annotations: mine(goneKey, "{{{")},
				{tells: "gone", at: 2, gone: []string{"u-gone"}, taints: crowded(0, 3), states: is, annotations: mine()},
			},
		},
		"a marker of a rule that is gone goes": {
			rules: []*build.RuleWrapper{rule()}, node: bystander().Annotation(goneMarker,
				`{"rule-name":"gone"}`).Annotation("readiness.k8s.io/bootstrap-completed-gone", `{"rule-name":"gone"}`),
			steps: []step{{tells: "gone", at: 1, gone: []string{"u-gone", "gone"}, taints: crowded(0, 3), states: is,
				annotations: mine()}},
		},
		"a marker of a rule that is not known to be gone stays": {
			rules: []*build.RuleWrapper{rule()}, node: bystander().Annotation(goneMarker, `{"rule-name":"cni"}`),
			steps: []step{{tells: "not known", at: 1, taints: crowded(0, 3), states: is,
				annotations: mine(goneMarker, `{"rule-name":"cni"}`)}},
		},
		"a marker of a rule that was re-created becomes the new one's: the fleet is not gated again": {
			rules: []*build.RuleWrapper{rule().BootstrapOnly()}, node: fresh().Annotation(goneMarker, isMarked),
			steps: []step{{tells: "gone", at: 1, gone: []string{"u-gone"}, states: []string{"cni Ready BootstrapCompleted"},
				annotations: map[string]string{markerKey: isMarked}}},
		},
		"the older form, by name, is the new rule's as it is": {
			rules: []*build.RuleWrapper{rule().BootstrapOnly()}, node: fresh().Annotation(oldMarker, isMarked),
			steps: []step{{tells: "seen", at: 1, gone: []string{"cni"}, states: []string{"cni Ready BootstrapCompleted"},
				quiet: true}},
		},
		"a marker whose value does not say whose it is goes": {
			rules: []*build.RuleWrapper{rule().BootstrapOnly()}, node: fresh().Annotation(goneMarker, "true"),
			steps: []step{{tells: "gone", at: 1, gone: []string{"u-gone"}, taints: []string{pending},
				states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending},
				annotations: map[string]string{recordKey: claimed(1)}}},
		},
		"a claim of a rule that was re-created is taken over, without a moment in which it does not stand": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Taint(key, "pending", noSchedule).Annotation(goneKey,
				`{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			steps: []step{{tells: "gone", at: 1, gone: []string{"u-gone"}, taints: []string{pending},
				states: []string{"cni Held EvidenceMissing"}, changes: []string{"adopted cni " + pending},
				annotations: map[string]string{recordKey: claimed(1)}}},
		},
		"no rules are left at all": {
			rules: []*build.RuleWrapper{}, node: held(),
			steps: []step{{tells: "gone", at: 1, gone: []string{"u-gone"}, taints: crowded(0, 3),
				changes: []string{"removed - " + goneTaint}, annotations: map[string]string{"mine": "x"}}},
		},
	})
}

func TestStrangers(t *testing.T) {
	set := ruleset.NewSet(ruleset.Compile(rule().Obj(), nil, start))
	node := fresh().Annotation(recordKey, "").Annotation(markerKey, "").Annotation(oldMarker, "").
		Annotation(goneKey, "").Annotation(goneMarker, "").Annotation("readiness.k8s.io/bootstrap-completed-old", "").
		Annotation("readiness.node.x-k8s.io/override", "Hold").Annotation("example.com/rule-u-else", "")
	if diff := cmp.Diff([]string{"old", "u-gone"}, UnknownRules(node.Obj(), set)); diff != "" {
		t.Errorf("strangers (-want +got):\n%s", diff)
	}
	if got := UnknownRules(fresh().Obj(), set); got != nil {
		t.Errorf("strangers on a node without annotations: %v", got)
	}
}

func TestSweepLeavesTheNodeAsRead(t *testing.T) {
	set := ruleset.NewSet(ruleset.Compile(rule().Obj(), nil, start))
	node := fresh().Annotation(goneMarker, isMarked).Annotation(goneKey, goneRecord).Obj()
	before := node.DeepCopy()
	Sweep(node, set, func(string) bool { return true })
	if diff := cmp.Diff(before, node); diff != "" {
		t.Errorf("the node as read was changed (-before +after):\n%s", diff)
	}
	if s := Sweep(fresh().Obj(), set,
		func(string) bool { t.Error("asked about a rule that nobody mentions"); return true }); s.Claims != nil {
		t.Errorf("claims on a node without annotations: %v", s.Claims)
	}
}

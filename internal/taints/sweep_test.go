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
	const is = "Ready EvidenceHolds"
	mine := func(more ...string) map[string]string {
		out := map[string]string{"mine": "x", recordKey: released(1)}
		for i := 0; i+1 < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	reserved := `{"taint":"node.kubernetes.io/unreachable=:NoExecute"}`
	play(t, map[string]story{
		"claim and record of a rule that is gone go": on(held(), rules(rule()),
			then(1, "gone", is, gone{"u-gone"}, change("removed - "+goneTaint), tainted(crowded(0, 3)),
				mine()),
		),
		"those of a rule that is not known, and not known to be gone, stay": on(held(), rules(rule()),
			then(1, "not known", is, tainted(append(crowded(0, 3), goneTaint)), mine(goneKey, goneRecord)),
			then(2, "gone", is, gone{"u-gone"}, change("removed - "+goneTaint), tainted(crowded(0, 3)),
				mine()),
		),
		"the taint stays, where a rule that is not known to be gone claims the one that another leaves": on(fresh().
			Taint(key, "pending", noSchedule).Annotation(recordKey, claimed(0)).
			Annotation(goneKey, `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`), rules(rule()),
			then(1, "ready", is, ready(1), tainted{pending}, written),
			then(2, "gone", is, gone{"u-gone"}, removed),
		),
		"a claim that is not known does not bring a taint back": on(held().Untaint("example.com/gone"), rules(rule()),
			then(1, "not known", is, tainted(crowded(0, 3)), mine(goneKey, goneRecord)),
		),
		"a claim that is not known does not keep a known one from bringing it": on(
			fresh().Annotation(goneKey, `{"taint":"readiness.k8s.io/cni=x:NoSchedule"}`), rules(rule()),
			then(1, "held", "Held EvidenceMissing", added),
		),
		"a forged record does not take off a taint of Kubernetes": on(
			bystander().Taint("node.kubernetes.io/unreachable", "", noExecute).Annotation(goneKey, reserved), rules(rule()),
			then(1, "gone", is, gone{"u-gone"},
				tainted(append(crowded(0, 3), "node.kubernetes.io/unreachable=:NoExecute")), mine()),
		),
		"a forged record of a rule that is known does not either": on(
			bystander().Taint("node.kubernetes.io/unreachable", "", noExecute).Annotation(recordKey, reserved), rules(rule()),
			then(1, "seen", is,
				tainted(append(crowded(0, 3), "node.kubernetes.io/unreachable=:NoExecute")), mine()),
		),
		"a record that cannot be read goes once its rule is gone": on(bystander().Annotation(goneKey, "{{{"), rules(rule()),
			then(1, "not known", is, tainted(crowded(0, 3)), mine(goneKey, "{{{")),
			then(2, "gone", is, gone{"u-gone"}, tainted(crowded(0, 3)), mine()),
		),
		"a marker of a rule that is gone goes": on(bystander().Annotation(goneMarker, `{"rule-name":"gone"}`).
			Annotation("readiness.k8s.io/bootstrap-completed-gone", `{"rule-name":"gone"}`), rules(rule()),
			then(1, "gone", is, gone{"u-gone", "gone"}, tainted(crowded(0, 3)), mine()),
		),
		"a marker of a rule that is not known to be gone stays": on(
			bystander().Annotation(goneMarker, `{"rule-name":"cni"}`), rules(rule()),
			then(1, "not known", is, tainted(crowded(0, 3)), mine(goneMarker, `{"rule-name":"cni"}`)),
		),
		"a marker of a rule that was re-created becomes the new one's: the fleet is not gated again": on(
			fresh().Annotation(goneMarker, isMarked), rules(rule().BootstrapOnly()),
			then(1, "gone", "Ready BootstrapCompleted", gone{"u-gone"}, map[string]string{markerKey: isMarked}),
		),
		"the older form, by name, is the new rule's as it is": on(fresh().Annotation(oldMarker, isMarked),
			rules(rule().BootstrapOnly()),
			then(1, "seen", "Ready BootstrapCompleted", gone{"cni"}),
		),
		"a marker whose value does not say whose it is goes": on(fresh().Annotation(goneMarker, "true"),
			rules(rule().BootstrapOnly()),
			then(1, "gone", "Held EvidenceMissing", gone{"u-gone"}, added, recorded(claimed(1))),
		),
		"a claim of a rule that was re-created is taken over, without a moment in which it does not stand": on(fresh().
			Taint(key, "pending", noSchedule).
			Annotation(goneKey, `{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule"}`), rules(rule()),
			then(1, "gone", "Held EvidenceMissing", gone{"u-gone"}, adopted, recorded(foreign(claimed(1)))),
		),
		"no rules are left at all": on(held(), rules(),
			then(1, "gone", "", gone{"u-gone"}, change("removed - "+goneTaint), tainted(crowded(0, 3)),
				map[string]string{"mine": "x"}),
		),
	})
}

func TestUnknownRules(t *testing.T) {
	set := ruleset.NewSet(ruleset.Compile(rule().Obj(), nil, start))
	node := fresh().Annotation(recordKey, "").Annotation(markerKey, "").Annotation(oldMarker, "").
		Annotation(goneKey, "").Annotation(goneMarker, "").Annotation("readiness.k8s.io/bootstrap-completed-old", "").
		Annotation("readiness.node.x-k8s.io/override", "Hold").Annotation("example.com/rule-u-else", "")
	if diff := cmp.Diff([]string{"old", "u-gone"}, UnknownRules(node.Obj(), set)); diff != "" {
		t.Errorf("unknown rules (-want +got):\n%s", diff)
	}
	if got := UnknownRules(fresh().Obj(), set); got != nil {
		t.Errorf("unknown rules on a node without annotations: %v", got)
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
		func(string) bool { t.Error("asked about a rule that nothing mentions"); return true }); s.Claims != nil {
		t.Errorf("claims on a node without annotations: %v", s.Claims)
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

const (
	goneKey       = "nodegate.io/rule-u-gone"
	goneMarker    = "readiness.k8s.io/bootstrap-completed-u-gone"
	goneOldMarker = "readiness.k8s.io/bootstrap-completed-gone"
	goneTaint     = "example.com/gone=x:NoSchedule"
	goneRecord    = `{"rule":"gone","taint":"example.com/gone=x:NoSchedule","since":"2026-01-02T15:00:00Z","own":true}`
	goneAdmitted  = `{"rule":"gone","taint":"example.com/gone=x:NoSchedule","since":"2026-01-02T15:00:00Z"}`
)

func TestSweep(t *testing.T) {
	bystander := func() *build.NodeWrapper {
		return crowd(Fresh().Condition(CNI, "True", At(0)), 0, 3).Annotation("mine", "x")
	}
	held := func() *build.NodeWrapper {
		return bystander().Taint("example.com/gone", "x", NoSchedule).Annotation(goneKey, goneRecord)
	}
	const is = "Ready EvidenceHolds"
	mine := func(more ...string) Annotated {
		out := Annotated{"mine": "x", RecordKey: Released(1)}
		for i := 0; i+1 < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	reserved := `{"taint":"node.kubernetes.io/unreachable=:NoExecute"}`
	Play(t, map[string]Story{
		"those of a rule that is not known, and not known to be gone, stay": On(held(), Rules(Rule()),
			Then(1, "not known", is, Tainted(append(crowded(0, 3), goneTaint)), mine(goneKey, goneRecord)),
			Then(2, "gone", is, Gone{"u-gone"}, Change("removed - "+goneTaint), Tainted(crowded(0, 3)),
				mine()),
		),
		"a kubelet brings a taint, and a record of a rule that never was": On(
			held().Annotation(goneKey, goneAdmitted), Rules(Rule()),
			Then(1, "gone", is, Gone{"u-gone"}, Tainted(append(crowded(0, 3), goneTaint)), mine()),
		),
		"a kubelet brings a taint, and a record of a rule that never had it": On(
			bystander().Taint("example.com/gone", "x", NoSchedule).Annotation(RecordKey, goneAdmitted), Rules(Rule()),
			Then(1, "seen", is, Tainted(append(crowded(0, 3), goneTaint)), mine()),
		),
		"a kubelet brings them, and the rule is suspended": On(
			bystander().Taint("example.com/gone", "x", NoSchedule).Annotation(RecordKey, goneAdmitted),
			Rules(Rule().Suspend(true)),
			Then(1, "seen", "Ready Suspended", Tainted(append(crowded(0, 3), goneTaint)),
				Annotated{"mine": "x", RecordKey: goneAdmitted}),
		),
		"a rule is deleted that this process has known, with a claim by admission": On(
			held().Annotation(goneKey, `{"rule":"gone","taint":"example.com/gone=x:NoSchedule"}`),
			Rules(Rule(), RuleOf("gone", "none", "example.com/gone").Taint("example.com/gone", "x", NoSchedule)),
			Then(1, "known", is+", gone Held EvidenceMissing", Tainted(append(crowded(0, 3), goneTaint)), mine(goneKey,
				`{"rule":"gone","taint":"example.com/gone=x:NoSchedule"}`)),
			Then(2, "gone", is, Rules(Rule()), Gone{"u-gone"}, Change("removed - "+goneTaint), Tainted(crowded(0, 3)), mine()),
		),
		"the taint stays, where a rule that is not known to be gone claims the one that another leaves": On(Fresh().
			Taint(Key, "pending", NoSchedule).Annotation(RecordKey, Claimed(0)).
			Annotation(goneKey, `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`), Rules(Rule()),
			Then(1, "ready", is, Ready(1), Tainted{Pending}, Written),
			Then(2, "gone", is, Gone{"u-gone"}, Removed),
		),
		"a claim that is not known does not bring a taint back": On(held().Untaint("example.com/gone"), Rules(Rule()),
			Then(1, "not known", is, Tainted(crowded(0, 3)), mine(goneKey, goneRecord)),
		),
		"a claim that is not known does not keep a known one from bringing it": On(
			Fresh().Annotation(goneKey, `{"taint":"readiness.k8s.io/cni=x:NoSchedule"}`), Rules(Rule()),
			Then(1, "held", "Held EvidenceMissing", Added),
		),
		"a forged record does not take off a taint of Kubernetes": On(
			bystander().Taint("node.kubernetes.io/unreachable", "", NoExecute).Annotation(goneKey, reserved), Rules(Rule()),
			Then(1, "gone", is, Gone{"u-gone"},
				Tainted(append(crowded(0, 3), "node.kubernetes.io/unreachable=:NoExecute")), mine()),
		),
		"a forged record of a rule that is known does not either": On(
			bystander().Taint("node.kubernetes.io/unreachable", "", NoExecute).Annotation(RecordKey, reserved), Rules(Rule()),
			Then(1, "seen", is,
				Tainted(append(crowded(0, 3), "node.kubernetes.io/unreachable=:NoExecute")), mine()),
		),
		"a record that cannot be read goes once its rule is gone": On(bystander().Annotation(goneKey, "{{{"), Rules(Rule()),
			Then(1, "not known", is, Tainted(crowded(0, 3)), mine(goneKey, "{{{")),
			Then(2, "gone", is, Gone{"u-gone"}, Tainted(crowded(0, 3)), mine()),
		),
		"markers of a rule that is gone stay for ten minutes": On(bystander().Annotation(goneMarker, `{"rule-name":"gone"}`).
			Annotation(goneOldMarker, `{"rule-name":"gone"}`), Rules(Rule()),
			Then(1, "gone", is, Gone{"u-gone", "gone"}, Tainted(crowded(0, 3)),
				mine(goneMarker, `{"rule-name":"gone"}`, goneOldMarker, `{"rule-name":"gone"}`)),
			Then(599, "not for that long", is, Tainted(crowded(0, 3))),
			Then(600, "over", is, Tainted(crowded(0, 3)), mine()),
		),
		"a marker becomes that of a rule of the same name that comes within ten minutes, also without evidence by then": On(
			Fresh().Annotation(goneMarker, IsMarked), Rules(),
			Then(1, "gone", "", Gone{"u-gone"}),
			Then(599, "created again", "Ready BootstrapCompleted", Rules(Rule().BootstrapOnly()),
				Annotated{MarkerKey: IsMarked}),
		),
		"a marker of a rule that is not known to be gone stays": On(
			bystander().Annotation(goneMarker, `{"rule-name":"cni"}`), Rules(Rule()),
			Then(1, "not known", is, Tainted(crowded(0, 3)), mine(goneMarker, `{"rule-name":"cni"}`)),
		),
		"a marker of a rule that was re-created becomes the new one's: the fleet is not gated again": On(
			Fresh().Annotation(goneMarker, IsMarked), Rules(Rule().BootstrapOnly()),
			Then(1, "gone", "Ready BootstrapCompleted", Gone{"u-gone"}, Annotated{MarkerKey: IsMarked}),
		),
		"the older form, by name, is the new rule's as it is": On(Fresh().Annotation(OldMarker, IsMarked),
			Rules(Rule().BootstrapOnly()),
			Then(1, "seen", "Ready BootstrapCompleted", Gone{"cni"}),
		),
		"a marker whose value does not say whose it is goes": On(Fresh().Annotation(goneMarker, "true"),
			Rules(Rule().BootstrapOnly()),
			Then(1, "gone", "Held EvidenceMissing", Gone{"u-gone"}, Added,
				Annotated{RecordKey: Claimed(1), goneMarker: "true"}),
			Then(600, "over", "Held EvidenceMissing", Recorded(Claimed(1))),
		),
		"a marker of a rule that was re-created as a continuous one goes": On(bystander().Annotation(goneMarker, IsMarked),
			Rules(Rule()),
			Then(1, "gone", is, Gone{"u-gone"}, Tainted(crowded(0, 3)), mine(goneMarker, IsMarked)),
			Then(600, "over", is, Tainted(crowded(0, 3)), mine()),
		),
		"the taints of a rule that is gone and of another one are removed at once": On(
			held().Taint(Key, "pending", NoSchedule).Annotation(RecordKey, Claimed(0)), Rules(Rule()),
			Then(1, "gone", is, Gone{"u-gone"}, Removed, Change("removed - "+goneTaint), Tainted(crowded(0, 3)), mine()),
		),
		"an annotation of another client that looks like a record claims nothing": On(
			bystander().Annotation("mine", Claimed(0)).Taint(Key, "pending", NoSchedule).Annotation(RecordKey, Claimed(0)),
			Rules(Rule()),
			Then(1, "ready", is, Removed, Tainted(crowded(0, 3)), mine("mine", Claimed(0))),
		),
		"the value of a taint that kubelet registered stays where a rule is gone that had another taint": On(
			Fresh().Taint(Key, "x", NoSchedule).Taint("example.com/gone", "x", NoSchedule).Annotation(goneKey, goneRecord),
			Rules(Rule()),
			Then(1, "gone", "Held EvidenceMissing", Gone{"u-gone"}, Adopted, Change("removed - "+goneTaint),
				Tainted{Key + "=x:NoSchedule"}),
		),
		"and where a rule is gone that had another value": On(Fresh().Taint(Key, "x", NoSchedule).Annotation(goneKey,
			`{"rule":"gone","taint":"readiness.k8s.io/cni=y:NoSchedule","since":"2026-01-02T15:00:00Z","own":true}`),
			Rules(Rule()),
			Then(1, "gone", "Held EvidenceMissing", Gone{"u-gone"}, Adopted, Tainted{Key + "=x:NoSchedule"}),
		),
		"a claim of a rule that was re-created is taken over, without a moment in which it does not stand": On(Fresh().
			Taint(Key, "pending", NoSchedule).
			Annotation(goneKey, `{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule"}`), Rules(Rule()),
			Then(1, "gone", "Held EvidenceMissing", Gone{"u-gone"}, Adopted, Recorded(Foreign(Claimed(1)))),
		),
	})
}

// TestSuccessor: the rule continues u-gone of another API group. Nothing of u-gone is unknown, although there is no
// such rule.
func TestSuccessor(t *testing.T) {
	successor := func() *build.RuleWrapper {
		r := Rule()
		r.Annotations = map[string]string{v1alpha1.SuccessorAnnotation: "u-gone"}
		return r
	}
	gone := Gone{"u-gone"} // if the operator asks for it
	held := Tainted{"example.com/gone=pending:NoSchedule", Pending}
	const late = `{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule","late":true}`
	adopted := fmt.Sprintf(`{"rule":"cni","taint":%q,"since":"%s","adopted":true,"released":"%s"}`, Pending, Stamp(1),
		Stamp(0))
	own, oldOwn := "nodegate.io/bootstrap-completed-u-gone", "nodegate.io/bootstrap-completed-cni"
	Play(t, map[string]Story{
		"a held node stays held, with the same claim": On(Fresh().Taint(Key, "pending", NoSchedule).
			Annotation(goneKey, Claimed(0)), Rules(successor()),
			Then(1, "not ready", "Held EvidenceMissing", gone, Tainted{Pending}, Recorded(Claimed(0))),
			Then(2, "ready", "Ready EvidenceHolds", gone, Ready(2), Removed),
		),
		"a node in service is still in service": On(Fresh().Annotation(goneKey, Released(0)), Rules(successor().
			UnreadySeconds(60)),
			Then(1, "not ready", "Ready UnreadyWindow", gone, Recorded(Released(0)), Again(61)),
		),
		"a completed node stays completed": On(Fresh().Annotation(goneMarker, IsMarked),
			Rules(successor().BootstrapOnly()),
			Then(1, "not ready", "Ready BootstrapCompleted", gone, Annotated{MarkerKey: IsMarked}),
			Then(700, "later", "Ready BootstrapCompleted"),
		),
		"and so if the marker is of the other API group": On(Fresh().Annotation(own, IsMarked),
			Rules(successor().BootstrapOnly()),
			Then(1, "not ready", "Ready BootstrapCompleted", gone, Annotated{MarkerKey: IsMarked}),
		),
		"and so if the marker has the older form": On(Fresh().Annotation(oldOwn, IsMarked),
			Rules(successor().Created(At(1)).BootstrapOnly()),
			Then(1, "not ready", "Ready BootstrapCompleted", gone, Annotated{MarkerKey: IsMarked}),
		),
		"later, a marker of the older form is another controller's: on a node that is held": On(Fresh().
			Taint(Key, "pending", NoSchedule).Annotation(RecordKey, Claimed(0)).Annotation(oldOwn, IsMarked),
			Rules(successor().Created(At(1)).BootstrapOnly()),
			Then(1, "not ready", "Held EvidenceMissing", Annotated{oldOwn: IsMarked, RecordKey: Claimed(0)}),
		),
		"on a node that has completed the rule": On(Fresh().Annotation(MarkerKey, IsMarked).Annotation(oldOwn, IsMarked),
			Rules(successor().Created(At(1)).BootstrapOnly()),
			Then(1, "not ready", "Ready BootstrapCompleted", Annotated{oldOwn: IsMarked, MarkerKey: IsMarked}),
		),
		"on a node that the rule does not select": On(Fresh().Annotation(oldOwn, IsMarked),
			Rules(successor().Created(At(1)).Selector("example.com/pool", "other").BootstrapOnly()),
			Then(1, "not selected", "", Annotated{oldOwn: IsMarked}),
		),
		"a marker of the older form on a younger node is another controller's": On(Fresh().Annotation(oldOwn, IsMarked),
			Rules(successor().BootstrapOnly()),
			Then(1, "not ready", "Held EvidenceMissing", Added, Annotated{oldOwn: IsMarked, RecordKey: Claimed(1)}),
		),
		"a rule without a predecessor does not read those": On(Fresh().Annotation(own, IsMarked).Annotation(oldOwn, IsMarked),
			Rules(Rule().BootstrapOnly().Created(At(1))),
			Then(1, "not ready", "Held EvidenceMissing", Added),
		),
		"a record that a kubelet forged is not believed": On(Fresh().Taint("example.com/gone", "x", NoSchedule).
			Annotation(goneKey, goneAdmitted).Condition(CNI, "True", At(0)), Rules(successor()),
			Then(1, "ready", "Ready EvidenceHolds", gone, Tainted{goneTaint}, Recorded(Released(1))),
		),
		"a claim of an admission policy that knew the predecessor is believed": On(Fresh().Taint(Key, "pending", NoSchedule).
			Annotation(goneKey, `{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule"}`).
			Condition(CNI, "True", At(0)), Rules(successor()),
			Then(1, "ready", "Ready EvidenceHolds", gone, Removed, Recorded(Released(1))),
		),
		"a rule that continues a living one takes nothing from it": On(Fresh(),
			Rules(successor(), RuleOf("gone", "none", "example.com/gone")),
			Then(1, "held by both", "Held EvidenceMissing, gone Held EvidenceMissing", Added,
				Change("added gone example.com/gone=pending:NoSchedule"), held),
			Then(2, "nothing to write", "Held EvidenceMissing, gone Held EvidenceMissing", held, Quiet),
		),
		"its own record counts more": On(Fresh().Annotation(RecordKey, Released(0)).Annotation(goneKey, Claimed(0)).
			Condition(CNI, "True", At(0)), Rules(successor()),
			Then(1, "ready", "Ready EvidenceHolds", gone, Recorded(Released(0))),
		),
		"and the other taint that the predecessor claims goes": On(Fresh().Taint("example.com/gone", "x", NoSchedule).
			Annotation(RecordKey, Released(0)).Annotation(goneKey, goneRecord).Condition(CNI, "True", At(0)),
			Rules(successor()),
			Then(1, "ready", "Ready EvidenceHolds", gone, Change("removed - "+goneTaint), Recorded(Released(0))),
		),
		"a claim by admission, which does not know the record of the node in service, does not count more": On(Fresh().
			Taint(Key, "pending", NoSchedule).Annotation(RecordKey, late).Annotation(goneKey, Released(0)),
			Rules(successor().UnreadySeconds(60)),
			Then(1, "not ready", "Held EvidenceMissing", gone, Adopted, Recorded(adopted)),
			Then(2, "ready", "Ready EvidenceHolds", gone, Ready(2), Removed, Recorded(Released(0))),
		),
		"nor does it hide the other taint that the predecessor claims": On(Fresh().Taint("example.com/gone", "x", NoSchedule).
			Taint(Key, "pending", NoSchedule).Annotation(RecordKey, late).Annotation(goneKey, goneRecord).
			Condition(CNI, "True", At(0)), Rules(successor()),
			Then(1, "ready", "Ready EvidenceHolds", gone, Change("removed cni "+goneTaint),
				Recorded(Released(1))),
		),
		"of two claims by admission, its own counts": On(Fresh().Taint(Key, "pending", NoSchedule).
			Annotation(RecordKey, late).Annotation(goneKey, goneAdmitted), Rules(successor()),
			Then(1, "not ready", "Held EvidenceMissing", gone, Recorded(late)),
		),
		"a suspended rule continues it, too": On(Fresh().Taint(Key, "pending", NoSchedule).
			Annotation(goneKey, Claimed(0)), Rules(successor().Suspend(true)),
			Then(1, "suspended", "Held Suspended", gone, Tainted{Pending}, Recorded(Claimed(0))),
			Then(2, "resumed", "Held EvidenceMissing", gone, Rules(successor())),
		),
		"a deleted rule removes it, too": On(Fresh().Taint(Key, "pending", NoSchedule).
			Annotation(goneKey, Claimed(0)), Rules(successor().Deleted(At(0))),
			Then(1, "deleted", "cni", gone, Removed, Clean),
		),
	})
}

// TestATaintThatAnotherControllerMayHaveTakenOver: a rule was removed without its finalizer, and the rules of another
// controller have not been read since the start. The taint and the record stay until they are, unless a rule in force
// has the same taint.
func TestATaintThatAnotherControllerMayHaveTakenOver(t *testing.T) {
	for name, c := range map[string]struct {
		rule      *build.RuleWrapper
		untrusted bool
		stays     bool
	}{
		"no rule has it":                  {rule: Rule(), stays: true},
		"a rule in force has it":          {rule: RuleOf("heir", CNI, "example.com/gone")},
		"a rule that is not in force":     {rule: RuleOf("heir", CNI, "example.com/gone"), untrusted: true, stays: true},
		"a rule in force has another one": {rule: RuleOf("heir", CNI, "example.com/heir"), stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWorld(t, c.rule)
			w.Gone = []string{"u-gone"}
			w.Foreign = w.Set(At(1)).AssumedForeign(func(*ruleset.Rule) bool { return !c.untrusted })
			node := Fresh().Condition(CNI, "True", At(0)).Taint("example.com/gone", "x", NoSchedule).
				Annotation(goneKey, goneRecord).Obj()
			swept, _ := w.Decide(node, At(1))
			after, _, _ := w.Pass(node, At(1))
			_, recorded := after.Annotations[goneKey]
			if tainted := len(after.Spec.Taints) > 0; tainted != c.stays || recorded != c.stays ||
				swept.RecheckAt.Equal(At(61)) != c.stays {
				t.Errorf("taints %v, a record: %t, again at %s", Formatted(after), recorded, swept.RecheckAt)
			}
			w.Foreign = ruleset.Foreign{}
			after, _, _ = w.Pass(after, At(2))
			if _, recorded = after.Annotations[goneKey]; recorded || len(after.Spec.Taints) > 0 {
				t.Errorf("taints %v, a record: %t, after the other rules were read", Formatted(after), recorded)
			}
		})
	}
}

func TestUnknownRules(t *testing.T) {
	set := ruleset.NewSet(ruleset.Compile(Rule().Obj(), nil, Start))
	node := Fresh().Annotation(RecordKey, goneAdmitted).Annotation(MarkerKey, "").Annotation(OldMarker, "").
		Annotation(goneKey, "").Annotation(goneMarker, "").Annotation("readiness.k8s.io/bootstrap-completed-old", "").
		Annotation("nodegate.io/override", "Hold").Annotation("example.com/rule-u-else", "")
	if diff := cmp.Diff([]string{"old", "u-gone"}, taints.UnknownRules(node.Obj(), set, nil)); diff != "" {
		t.Errorf("unknown rules (-want +got):\n%s", diff)
	}
	if got := taints.UnknownRules(Fresh().Obj(), set, nil); got != nil {
		t.Errorf("unknown rules on a node without annotations: %v", got)
	}
}

// In another API group, the markers of the default group are another controller's: neither read nor removed.
func TestSweepInTheOwnGroup(t *testing.T) {
	if err := v1alpha1.Serve("rules.nodegate.io"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v1alpha1.Serve(v1alpha1.GroupNames()[0]) })
	const theirs, ours = "readiness.k8s.io/bootstrap-completed-cni", "nodegate.io/bootstrap-completed-u-gone"
	Play(t, map[string]Story{
		"a marker of another controller with the name of a rule": On(
			Fresh().Annotation(goneMarker, "{}").Annotation(theirs, "{}").Annotation(ours, "{}"),
			Rules(Rule().BootstrapOnly()),
			Then(1, "not ready", "Held EvidenceMissing", Added, Gone{"u-gone"},
				Annotated{goneMarker: "{}", theirs: "{}", ours: "{}", RecordKey: Claimed(1)}),
			Then(600, "ten minutes later", "Held EvidenceMissing",
				Annotated{goneMarker: "{}", theirs: "{}", RecordKey: Claimed(1)}),
		),
	})
}

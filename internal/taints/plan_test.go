// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

const (
	diskKey     = "readiness.k8s.io/disk"
	diskPending = diskKey + "=pending:NoSchedule"
)

// crowd adds so many unrelated taints.
func crowd(n *build.NodeWrapper, from, to int) *build.NodeWrapper {
	for i := from; i < to; i++ {
		n.Taint(fmt.Sprintf("foreign.example.com/t%d", i), "x", []corev1.TaintEffect{NoSchedule, NoExecute,
			corev1.TaintEffectPreferNoSchedule}[i%3])
	}
	return n
}

func crowded(from, to int) []string { return Formatted(crowd(Fresh(), from, to).Obj()) }

func TestAdoption(t *testing.T) {
	registered := Key + "=kubelet:NoSchedule"
	Play(t, map[string]Story{
		"a taint that kubelet registered keeps its value, and goes when the node is ready": On(
			Fresh().Taint(Key, "kubelet", NoSchedule), Rules(Rule()),
			Then(1, "seen", "Held EvidenceMissing", Adopted, Tainted{registered}, Recorded(Foreign(Claimed(1)))),
			Then(2, "later", "Held EvidenceMissing", Restarted, Tainted{registered}),
			Then(9, "ready", "Ready EvidenceHolds", Ready(9), Removed),
		),
		"its value changes when the rule's is edited": On(Fresh().Taint(Key, "kubelet", NoSchedule), Rules(Rule()),
			Then(1, "seen", "Held EvidenceMissing", Adopted, Tainted{registered}),
			Then(5, "edited", "Held EvidenceMissing", Rules(Rule().Taint(Key, "later", NoSchedule)),
				Tainted{Key + "=later:NoSchedule"}, Written),
		),
		"one on a node that is ready goes at once": On(Old().Condition(CNI, "True", At(-900)).Taint(Key, "", NoSchedule),
			Rules(Rule()),
			Then(1, "seen", "Ready EvidenceHolds", Removed),
		),
		"one of the same key with another effect is foreign": On(Fresh().Taint(Key, "pending", NoExecute), Rules(Rule()),
			Then(1, "seen", "Held EvidenceMissing", Added, Tainted{Key + "=pending:NoExecute", Pending}),
			Then(9, "ready", "Ready EvidenceHolds", Ready(9), Removed, Tainted{Key + "=pending:NoExecute"}),
		),
		"twenty foreign taints stay, in their order": On(
			crowd(crowd(Fresh(), 0, 10).Taint(Key, "kubelet", NoSchedule), 10, 20), Rules(Rule()),
			Then(1, "seen", "Held EvidenceMissing", Adopted,
				Tainted(append(append(crowded(0, 10), registered), crowded(10, 20)...))),
			Then(9, "ready", "Ready EvidenceHolds", Ready(9), Removed, Tainted(crowded(0, 20))),
			Then(19, "unready", "Held EvidenceMissing", Unready(19), Added, Tainted(append(crowded(0, 20), Pending))),
			Then(29, "deleted", "cni", Rules(Rule().Deleted(At(29))), Removed, Tainted(crowded(0, 20))),
		),
		"a claim whose taint a user has removed is restored": On(Fresh(), Rules(Rule()),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(2, "taken off", "Held EvidenceMissing", Edit(func(n *build.NodeWrapper) { n.Untaint(Key) }), Added,
				Recorded(Claimed(1))),
		),
		"a claim whose record a user has removed is adopted": On(Fresh(), Rules(Rule()),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(2, "taken off", "Held EvidenceMissing", Edit(func(n *build.NodeWrapper) { n.Unannotate(RecordKey) }), Adopted,
				Recorded(Foreign(Claimed(2)))),
		),
	})
}

func TestNoExecuteSaysSinceWhen(t *testing.T) {
	w := NewWorld(t, Rule().Taint(Key, "pending", NoExecute))
	node, _, _ := w.Pass(Fresh().Obj(), At(7))
	if got := node.Spec.Taints[0].TimeAdded; got == nil || !got.Time.Equal(At(7)) {
		t.Errorf("timeAdded is %v, want %s", got, At(7))
	}
	w.Objects = []*build.RuleWrapper{Rule().Taint(Key, "edited", NoExecute)}
	node, _, _ = w.Pass(node, At(20))
	if got := node.Spec.Taints[0]; got.Value != "edited" || !got.TimeAdded.Time.Equal(At(7)) {
		t.Errorf("after an edit it is %+v, want the time it had", got)
	}
}

func TestEdits(t *testing.T) {
	held := Then(1, "held", "Held EvidenceMissing", Added)
	edited := func(taintKey, value string, effect corev1.TaintEffect) RuleList {
		return []*build.RuleWrapper{Rule().Generation(2).Taint(taintKey, value, effect)}
	}
	record := func(taint string, since int) Annotated {
		return map[string]string{RecordKey: fmt.Sprintf(`{"rule":"cni","taint":%q,"since":%q,"own":true}`, taint,
			Stamp(since))}
	}
	Play(t, map[string]Story{
		"another key: the old one is gone and the new one there, in one patch": On(Fresh(), Rules(Rule()),
			held,
			Then(5, "edited", "Held EvidenceMissing", edited("example.com/new", "pending", NoSchedule), Removed,
				Change("added cni example.com/new=pending:NoSchedule"), Tainted{"example.com/new=pending:NoSchedule"},
				record("example.com/new=pending:NoSchedule", 1)),
		),
		"another value": On(Fresh(), Rules(Rule()),
			held,
			Then(5, "edited", "Held EvidenceMissing", edited(Key, "edited", NoSchedule), Tainted{Key + "=edited:NoSchedule"},
				record(Key+"=edited:NoSchedule", 1)),
		),
		"another key, which another client has added already": On(Fresh(), Rules(Rule()),
			held,
			Then(5, "edited", "Held EvidenceMissing", edited("example.com/new", "pending", NoSchedule),
				Edit(func(n *build.NodeWrapper) { n.Taint("example.com/new", "theirs", NoSchedule) }), Removed,
				Tainted{"example.com/new=theirs:NoSchedule"}),
		),
		"another key, while the operator was down, and the node is ready meanwhile": On(Fresh(), Rules(Rule()),
			held,
			Then(5, "edited", "Ready EvidenceHolds", Restarted, edited("example.com/new", "pending", NoSchedule), Ready(4),
				Removed, Recorded(Released(5))),
		),
		"a suspended rule does not put its edited taint on": On(Fresh(), Rules(Rule()),
			held,
			Then(5, "edited", "Exempt Suspended", Tainted{Pending},
				Rules(Rule().Generation(2).Taint("example.com/new", "", NoSchedule).Suspend(true))),
			Then(6, "in force", "Held EvidenceMissing", edited("example.com/new", "", NoSchedule), Removed,
				Change("added cni example.com/new=:NoSchedule"), Tainted{"example.com/new=:NoSchedule"}),
		),
	})
}

func TestLabels(t *testing.T) {
	var out Edit = func(n *build.NodeWrapper) { n.Unlabel("pool") }
	var in Edit = func(n *build.NodeWrapper) { n.Label("pool", "workers") }
	Play(t, map[string]Story{
		"relabelled out and in while not ready": On(Fresh(), Rules(Rule()),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(2, "out", "cni", out, Removed, Clean),
			Then(3, "still out", ""),
			Then(4, "in", "Held EvidenceMissing", in, Added, Recorded(Claimed(4))),
		),
		"relabelled from one rule to another with the same taint: it does not go": On(Fresh(),
			Rules(Rule(), RuleOf("disk", Disk, Key).Selector("pool", "storage")),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(2, "relabelled", "cni, disk Held EvidenceMissing",
				Edit(func(n *build.NodeWrapper) { n.Label("pool", "storage") }),
				Tainted{Pending}, Written),
		),
	})
}

func TestModes(t *testing.T) {
	held := Then(1, "held", "Held EvidenceMissing", Added)
	frozen := func() *build.RuleWrapper { return Rule().Generation(2).Evidence(v1alpha1.Requirement{Name: "future"}) }
	elder, elders := RuleOf("disk", Disk, Key).Taint(Key, "b", NoSchedule).Created(At(-90000)), Key+"=b:NoSchedule"
	var garbage Edit = func(n *build.NodeWrapper) { n.Annotation(RecordKey, `{"taint":"`+Pending+`","future":true} `) }
	Play(t, map[string]Story{
		"deleted: claim and record go; what is not yet adopted stays": On(Fresh().Taint(Key, "kubelet", NoSchedule),
			Rules(Rule().Deleted(At(0))),
			Then(1, "seen", "cni", Tainted{Key + "=kubelet:NoSchedule"}),
		),
		"invalid: what is there stays, byte for byte": On(Fresh(), Rules(Rule()),
			held,
			Then(2, "invalid and ready", "Held NotInForce", Rules(frozen()),
				Edit(func(n *build.NodeWrapper) { garbage(n); Ready(2)(n) })),
			Then(3, "relabelled", "cni", Edit(func(n *build.NodeWrapper) { n.Unlabel("pool") }), Tainted{Pending}),
			Then(4, "fixed", "cni", Rules(Rule().Generation(3)), Removed, Clean),
		),
		"invalid: a taint that a user has removed is not added again": On(Fresh(), Rules(Rule()),
			held,
			Then(2, "taken off", "Held NotInForce", Rules(frozen()),
				Edit(func(n *build.NodeWrapper) { n.Untaint(Key) }), Untainted),
		),
		"invalid: markers and garbage stay": On(
			Fresh().Annotation(RecordKey, "{").Annotation(MarkerKey, "x").Annotation(OldMarker, "y"), Rules(frozen()),
			Then(1, "seen", "Exempt NotInForce"),
		),
		"invalid: its claim stands in a shared taint, which keeps the value of the other": On(Fresh(), Rules(elder, Rule()),
			Then(1, "both hold", "disk Held EvidenceMissing, Held EvidenceMissing", Change("added disk "+elders), Added,
				Tainted{elders}),
			Then(2, "one invalid, the other ready", "disk Ready EvidenceHolds, Held NotInForce", Rules(elder, frozen()),
				Edit(func(n *build.NodeWrapper) { n.Condition(Disk, "True", At(2)).Condition(CNI, "True", At(2)) }),
				Tainted{elders}, Written),
		),
		"invalid: it does not stand in the way of one that shares its taint": On(Fresh(),
			Rules(Rule(), RuleOf("disk", Disk, Key)),
			Then(1, "both hold", "Held EvidenceMissing, disk Held EvidenceMissing", Added, Change("added disk "+Pending)),
			Then(2, "one invalid, and a user removes the taint", "Held NotInForce, disk Held EvidenceMissing",
				Rules(frozen(), RuleOf("disk", Disk, Key)), Edit(func(n *build.NodeWrapper) { n.Untaint(Key) }),
				Change("added disk "+Pending)),
		),
		"dry-run and back: claims go, nothing is added, then they come back": On(Fresh(), Rules(Rule()),
			held,
			Then(2, "dry-run", "Exempt DryRun", Rules(Rule().Generation(2).DryRun(true)), Removed, Clean),
			Then(3, "ready", "Ready EvidenceHolds", Ready(3)),
			Then(4, "not ready", "Exempt DryRun", Unready(4)),
			Then(5, "back", "Held EvidenceMissing", Rules(Rule().Generation(3)), Added),
		),
		"dry-run keeps what the node has been through": On(Fresh().BootID("b1").Condition(CNI, "True", At(0)),
			Rules(Rule().BootstrapOnly().RearmOnReboot()),
			Then(1, "completed", "Ready EvidenceHolds", Change("completed cni")),
			Then(2, "dry-run", "Ready BootstrapCompleted", Rules(Rule().BootstrapOnly().RearmOnReboot().DryRun(true))),
		),
		"dry-run does not manage what another client added": On(
			Fresh().Taint(Key, "kubelet", NoSchedule).Condition(CNI, "True", At(0)), Rules(Rule().DryRun(true)),
			Then(1, "seen", "Ready EvidenceHolds", Tainted{Key + "=kubelet:NoSchedule"}),
		),
	})
}

// TestAValueStays when a claim ends that has not given it.
func TestAValueStays(t *testing.T) {
	w := NewWorld(t, Rule(), RuleOf("disk", Disk, Key))
	held, _, _ := w.Pass(Fresh().Taint(Key, "kubelet", NoSchedule).Obj(), At(1))
	for _, ready := range []string{CNI, Disk} {
		after, _, _ := w.Pass(build.WrapNode(held.DeepCopy()).Condition(ready, "True", At(2)).Obj(), At(9))
		if diff := cmp.Diff([]string{Key + "=kubelet:NoSchedule"}, Formatted(after)); diff != "" {
			t.Errorf("%s is ready (-want +got):\n%s", ready, diff)
		}
	}
}

func TestDryRunSaysWhatItWouldDo(t *testing.T) {
	dry := func() *build.RuleWrapper { return Rule().DryRun(true) }
	cases := map[string]struct {
		rules          []*build.RuleWrapper
		node           *build.NodeWrapper
		claim, release bool
	}{
		"tainting a node that is not ready": {rules: []*build.RuleWrapper{dry()}, node: Fresh(), claim: true},
		"nothing on one that is": {rules: []*build.RuleWrapper{dry()},
			node: Fresh().Condition(CNI, "True", At(0))},
		"nothing on one that has the taint already": {rules: []*build.RuleWrapper{dry()},
			node: Fresh().Taint(Key, "", NoSchedule)},
		"taking it off one that is ready": {rules: []*build.RuleWrapper{dry()},
			node: Fresh().Taint(Key, "", NoSchedule).Condition(CNI, "True", At(0)), release: true},
		"nothing on an existing node, where those are left": {rules: []*build.RuleWrapper{dry().ExistingNodes("None")},
			node: Old()},
		"nothing on one that does not match": {rules: []*build.RuleWrapper{dry()},
			node: Fresh().Unlabel("pool").Annotation(RecordKey, "{}")},
		"tainting one that has rebooted": {
			rules: []*build.RuleWrapper{dry().RearmOnReboot()}, claim: true,
			node: Fresh().BootID("b2").Annotation(RecordKey, `{"bootID":"b1"}`).Condition(CNI, "True", At(0)).Condition("Ready",
				"True", At(0)).Heartbeat(CNI, At(-1)),
		},
		"tainting one that a timeout has let pass, which dry-run forgets": {
			rules: []*build.RuleWrapper{dry().Timeout(60, 0, v1alpha1.TimeoutActionRelease)}, claim: true,
			node: Fresh().Annotation(RecordKey, fmt.Sprintf(`{"timedOut":%q,"passed":true}`, Stamp(2))),
		},
		"tainting one that an override releases": {rules: []*build.RuleWrapper{dry()},
			node: Fresh().Annotation(v1alpha1.OverrideAnnotation, "Release"), claim: true},
		"nothing on a ready one that an override holds": {rules: []*build.RuleWrapper{dry()},
			node: Fresh().Condition(CNI, "True", At(0)).Annotation(v1alpha1.OverrideAnnotation, "Hold")},
		"not taking off what another rule holds": {
			rules: []*build.RuleWrapper{dry(), RuleOf("disk", Disk, Key)}, node: Fresh().Condition(CNI, "True", At(0)).Taint(Key,
				"pending", NoSchedule).
				Annotation("nodegate.io/rule-u-disk", `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, decisions := NewWorld(t, c.rules...).Pass(c.node.Obj(), At(5))
			if diff := cmp.Diff([]bool{c.claim, c.release}, []bool{decisions[0].WouldClaim,
				decisions[0].WouldRelease}); diff != "" {
				t.Errorf("would claim, would release (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMarksOfReplacements: the annotation by which a rule hands a node over is removed with the record that names it.
func TestMarksOfReplacements(t *testing.T) {
	const key = "example.com/replace"
	marked := func(value, annotation, mark string) *build.NodeWrapper {
		return Fresh().Taint(Key, "pending", NoSchedule).Annotation(annotation, value).Annotation(RecordKey, fmt.Sprintf(
			`{"rule":"cni","taint":%q,"since":%q,"timedOut":%q,"mark":%q,"handed":true}`, Pending, Stamp(1), Stamp(61), mark))
	}
	replaces := func() *build.RuleWrapper { return Rule().Replace(60, 1, key) }
	const held = "Held EvidenceMissing"
	kept := Annotated{key: "true", RecordKey: fmt.Sprintf(
		`{"rule":"cni","taint":%q,"since":%q,"timedOut":%q,"mark":"example.com/replace=true","handed":true}`, Pending,
		Stamp(1), Stamp(61))}
	unmarked := Recorded(fmt.Sprintf(`{"rule":"cni","taint":%q,"since":%q,"timedOut":%q,"handed":true}`, Pending, Stamp(1),
		Stamp(61)))
	deleted := func(leaves Annotated) Step {
		return Then(100, "deleted", "cni", Rules(replaces().Deleted(At(100))), Removed, leaves)
	}
	own := func() *build.NodeWrapper { return marked("true", key, key+"=true") }
	Play(t, map[string]Story{
		"it stays while the node waits": On(own(), Rules(replaces()), Then(99, "seen", held, kept)),
		"the node is ready": On(own(), Rules(replaces()),
			Then(99, "ready", "Ready EvidenceHolds", Ready(99), Removed, Recorded(Released(99)))),
		"the node is ready, but not for long enough": On(own(), Rules(replaces().ReadySeconds(30)),
			Then(99, "ready", "Held ReadyWindow", Ready(99), Again(129), unmarked)),
		"the node is in maintenance": On(own().Annotation(v1alpha1.MaintenanceAnnotation, "disk"), Rules(replaces()),
			Then(99, "seen", held, Annotated{RecordKey: unmarked[RecordKey],
				v1alpha1.MaintenanceAnnotation: "disk"})),
		"action: Keep":        On(own(), Rules(Rule().Timeout(60, 0, "Keep")), Then(99, "seen", held, unmarked)),
		"another method":      On(own(), Rules(Rule().Replace(60, 1, "")), Then(99, "seen", held, unmarked)),
		"another annotation":  On(own(), Rules(Rule().Replace(60, 1, "example.com/other")), Then(99, "seen", held, unmarked)),
		"suspended":           On(own(), Rules(replaces().Suspend(true)), Then(99, "seen", "Held Suspended", kept)),
		"the rule is deleted": On(own(), Rules(replaces()), deleted(Clean)),
		"it has another value by now": On(marked("mine", key, key+"=true"), Rules(replaces()),
			deleted(map[string]string{key: "mine"})),
		"a forged record names an annotation of Nodegate": On(marked("true", v1alpha1.MaintenanceAnnotation,
			v1alpha1.MaintenanceAnnotation+"=true"), Rules(replaces()),
			deleted(map[string]string{v1alpha1.MaintenanceAnnotation: "true"})),
		"another client notes it": On(own().Annotation("example.com/note", `{"mark":"example.com/replace=true"}`),
			Rules(Rule().Timeout(60, 0, "Keep")), Then(99, "seen", held, Annotated{
				RecordKey: unmarked[RecordKey], "example.com/note": `{"mark":"example.com/replace=true"}`})),
		"another rule names it, too": On(own().Annotation(goneKey, `{"mark":"example.com/replace=true"}`),
			Rules(replaces()),
			deleted(map[string]string{key: "true", goneKey: `{"mark":"example.com/replace=true"}`})),
		"its rule is gone": On(Fresh().Annotation(key, "true").Annotation(goneKey, `{"mark":"example.com/replace=true"}`),
			Rules(Rule()), Then(1, "gone", held, Gone{"u-gone"}, Added, Recorded(Claimed(1)))),
	})
}

func TestSharedTaint(t *testing.T) {
	second := func(value string) *build.RuleWrapper { return RuleOf("disk", Disk, Key).Taint(Key, value, NoSchedule) }
	third := func(value string) *build.RuleWrapper {
		return RuleOf("gpu", "example.com/GPU", Key).Taint(Key, value, NoSchedule)
	}
	b, c := Key+"=b:NoSchedule", Key+"=c:NoSchedule"
	diskReady := func(s int) Edit {
		return func(n *build.NodeWrapper) { n.Condition(Disk, "True", At(s)) }
	}
	both := Then(2, "both hold", "Held EvidenceMissing, disk Held EvidenceMissing", Written)
	Play(t, map[string]Story{
		"it stands while any of them claims it": On(Fresh(), Rules(Rule(), second("pending")),
			Then(1, "both", "Held EvidenceMissing, disk Held EvidenceMissing", Added, Change("added disk "+Pending)),
			Then(2, "one ready", "Ready EvidenceHolds, disk Held EvidenceMissing", Ready(2), Tainted{Pending}, Written),
			Then(3, "the other ready", "Ready EvidenceHolds, disk Ready EvidenceHolds", diskReady(3),
				Change("removed disk "+Pending)),
		),
		"claims of the same second: the older rule's is the oldest": On(Fresh(),
			Rules(second("b").Created(At(-90000)), Rule()),
			Then(1, "both", "disk Held EvidenceMissing, Held EvidenceMissing", Change("added disk "+b), Added, Tainted{b}),
			Then(2, "the other edited", "disk Held EvidenceMissing, Held EvidenceMissing",
				Rules(second("b").Created(At(-90000)), Rule().Taint(Key, "c", NoSchedule)), Tainted{b}, Written),
			Then(3, "the oldest edited", "disk Held EvidenceMissing, Held EvidenceMissing",
				Rules(second("pending").Created(At(-90000)), Rule().Taint(Key, "c", NoSchedule)), Written),
			Then(4, "the oldest ready", "disk Ready EvidenceHolds, Held EvidenceMissing", diskReady(4), Tainted{c}, Written),
		),
		"the oldest claim decides, not the oldest rule": On(Fresh(), Rules(Rule()),
			Then(1, "the younger rule", "Held EvidenceMissing", Added),
			Then(2, "the older rule", "disk Held EvidenceMissing, Held EvidenceMissing",
				Rules(second("b").Created(At(-90000)), Rule()), Written),
			Then(3, "the older rule edited", "disk Held EvidenceMissing, Held EvidenceMissing",
				Rules(second("x").Created(At(-90000)), Rule()), Written),
			Then(4, "the younger rule edited", "disk Held EvidenceMissing, Held EvidenceMissing",
				Rules(second("x").Created(At(-90000)), Rule().Taint(Key, "c", NoSchedule)), Tainted{c}, Written),
		),
		"the oldest moves on to another key: the taint stays, with the other's value": On(Fresh(), Rules(Rule()),
			Then(1, "the first", "Held EvidenceMissing", Added),
			func() Step { s := both; s.Rules = []*build.RuleWrapper{Rule(), second("b")}; return s }(),
			Then(3, "moves on", "Held EvidenceMissing, disk Held EvidenceMissing",
				Rules(Rule().Taint("example.com/new", "", NoSchedule), second("b")),
				Change("added cni example.com/new=:NoSchedule"), Tainted{b, "example.com/new=:NoSchedule"}),
		),
		"the oldest is a rule that is gone: the value is handed over": On(Fresh(), Rules(Rule()),
			Then(1, "the first", "Held EvidenceMissing", Added),
			func() Step { s := both; s.Rules = []*build.RuleWrapper{Rule(), second("b")}; return s }(),
			Then(3, "gone", "disk Held EvidenceMissing", Restarted, Rules(second("b")), Gone{"u-cni"}, Tainted{b}, Written),
		),
		"three rules, one after the other": On(Fresh(), Rules(Rule()),
			Then(1, "the first", "Held EvidenceMissing", Added),
			func() Step { s := both; s.Rules = []*build.RuleWrapper{Rule(), second("b")}; return s }(),
			Then(3, "the third", "Held EvidenceMissing, disk Held EvidenceMissing, gpu Held EvidenceMissing",
				Rules(Rule(), second("b"), third("c")), Written),
			Then(4, "the second is ready", "Held EvidenceMissing, disk Ready EvidenceHolds, gpu Held EvidenceMissing",
				diskReady(4), Written),
			Then(5, "the first is ready", "Ready EvidenceHolds, disk Ready EvidenceHolds, gpu Held EvidenceMissing", Ready(5),
				Tainted{c}, Written),
			Then(6, "the third goes into dry-run", "Ready EvidenceHolds, disk Ready EvidenceHolds, gpu Exempt DryRun",
				Rules(Rule(), second("b"), third("c").DryRun(true)), Change("removed gpu "+c)),
		),
		"an adopted value stays, also if it is that of another claim": On(Fresh().Taint(Key, "b", NoSchedule),
			Rules(Rule(), second("b")),
			Then(1, "adopted", "Held EvidenceMissing, disk Held EvidenceMissing", Adopted,
				Change("adopted disk "+Key+"=b:NoSchedule"), Tainted{Key + "=b:NoSchedule"}),
			Then(2, "again", "Held EvidenceMissing, disk Held EvidenceMissing", Tainted{Key + "=b:NoSchedule"}),
		),
		"an adopted value stays through it all": On(Fresh().Taint(Key, "kubelet", NoSchedule), Rules(Rule(), second("b")),
			Then(1, "both", "Held EvidenceMissing, disk Held EvidenceMissing", Adopted, Change("adopted disk "+b),
				Tainted{Key + "=kubelet:NoSchedule"}),
			Then(2, "one ready", "Ready EvidenceHolds, disk Held EvidenceMissing", Ready(2),
				Tainted{Key + "=kubelet:NoSchedule"}, Written),
		),
		"what another rule holds does not bypass the limit": On(Old(), Rules(Rule(), second("b").MaxUnavailable("0")),
			Then(1, "seen", "Held EvidenceMissing, disk Exempt OverBudget", Refuse{"disk"}, Added),
			Then(2, "again", "Held EvidenceMissing, disk Exempt OverBudget"),
		),
	})
}

// TestTheTaintOfAnotherControllerStays: nothing of a rule with such a taint is changed, except that records of deleted
// rules are removed.
func TestTheTaintOfAnotherControllerStays(t *testing.T) {
	held := func() *build.NodeWrapper {
		return Fresh().Taint(Key, "pending", NoSchedule).Annotation(RecordKey, Claimed(1)).Condition(CNI, "True", At(2))
	}
	overridden := held().Annotation(v1alpha1.OverrideAnnotation, "Release")
	other := `{"rule":"cni","taint":"` + diskPending + `","since":"` + Stamp(1) + `","own":true}`
	for name, c := range map[string]struct {
		rule   *build.RuleWrapper
		node   *build.NodeWrapper
		taints []string
		record string
	}{
		"ready":                {Rule(), held(), []string{Pending}, Claimed(1)},
		"overridden":           {Rule(), overridden, []string{Pending}, Claimed(1)},
		"in dry-run":           {Rule().DryRun(true), held(), []string{Pending}, ""},
		"suspended":            {Rule().Suspend(true), held(), []string{Pending}, Claimed(1)},
		"relabelled":           {Rule(), held().Label("pool", "else"), []string{Pending}, Claimed(1)},
		"removed by it":        {Rule(), held().Untaint(Key), nil, ""},
		"removed, with health": {Rule().Health("rules"), held().Untaint(Key), nil, `{"rule":"cni","health":"Ready"}`},
		"edited, and removed": {RuleOf("cni", CNI, Key), held().Untaint(Key).Taint(diskKey, "pending", NoSchedule).
			Annotation(RecordKey, other), []string{diskPending}, other},
		"new":                     {Rule(), Fresh(), nil, ""},
		"deleted":                 {Rule().Deleted(At(2)), held(), []string{Pending}, ""},
		"gone":                    {RuleOf("else", CNI, diskKey).Selector("pool", "else"), held(), []string{Pending}, ""},
		"edited to another taint": {RuleOf("cni", Disk, diskKey), held(), []string{Pending, diskPending}, other},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWorld(t, c.rule)
			w.Foreign, w.Gone = ruleset.Foreign{{Key: Key, Effect: NoSchedule}: "theirs"}, []string{"u-cni"}
			after, _, _ := w.Pass(c.node.Obj(), At(5))
			if diff := cmp.Diff(c.taints, Formatted(after)); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
			if got := after.Annotations[RecordKey]; got != c.record {
				t.Errorf("record %s, want %s", got, c.record)
			}
		})
	}
}

// TestNoClaimAddsTheTaintOfAnotherController, also if the rule is not frozen.
func TestNoClaimAddsTheTaintOfAnotherController(t *testing.T) {
	node := Fresh().Obj()
	swept, decisions := NewWorld(t, Rule()).Decide(node, At(5))
	swept.Foreign = ruleset.Foreign{{Key: Key, Effect: NoSchedule}: "theirs"}
	out := taints.Plan(node, swept, decisions, At(5))
	if !decisions[0].Claim || strings.Contains(string(out.Patch), `"path":"/spec/taints","value":[`) {
		t.Errorf("claim %t: %s", decisions[0].Claim, out.Patch)
	}
}

// TestNodesThatAnotherControllerReleased are in service when that controller no longer manages the taint.
func TestNodesThatAnotherControllerReleased(t *testing.T) {
	theirs := ruleset.Foreign{{Key: Key, Effect: NoSchedule}: "theirs"}
	rule := Rule().MaxUnavailable("1").UnreadySeconds(30).ReadySeconds(60)
	for name, ready := range map[string]corev1.ConditionStatus{"ready": "True", "not ready": "False"} {
		for came, node := range map[string]*build.NodeWrapper{
			"held before":  Fresh().Taint(Key, "pending", NoSchedule).Annotation(RecordKey, Claimed(1)),
			"created then": Fresh(),
		} {
			t.Run(name+", "+came, func(t *testing.T) {
				w := NewWorld(t, rule)
				w.Foreign, w.Refuse = theirs, []string{"cni"}
				n, _, _ := w.Pass(node.Obj(), At(5))
				n, _, _ = w.Pass(build.WrapNode(n).Untaint(Key).Condition(CNI, ready, At(95)).Obj(), At(100))
				w.Foreign = ruleset.Foreign{}
				for _, at := range []int{101, 102, 129, 200} {
					after, _, _ := w.Pass(n, At(at))
					if n = after; len(n.Spec.Taints) > 0 {
						t.Fatalf("after %d seconds it has %v", at, Formatted(n))
					}
				}
				if w.Asked != (ready == "False") {
					t.Errorf("the limit was asked: %t", w.Asked)
				}
			})
		}
	}
}

func TestTheOthersReportAConflict(t *testing.T) {
	rules := []*build.RuleWrapper{Rule(), RuleOf("disk", Disk, Key), RuleOf("gpu", "example.com/GPU", Key),
		RuleOf("net", "example.com/Net", "example.com/net")}
	w := NewWorld(t, rules...)
	node, out, _ := w.Pass(Fresh().Obj(), At(1))
	want := map[types.UID]bool{"u-disk": true, "u-gpu": true}
	if diff := cmp.Diff(want, out.Shared); diff != "" {
		t.Errorf("shared (-want +got):\n%s", diff)
	}
	_, out, _ = w.Pass(node, At(2))
	if diff := cmp.Diff(want, out.Shared); diff != "" {
		t.Errorf("shared, where nothing changes (-want +got):\n%s", diff)
	}
	_, out, _ = w.Pass(build.WrapNode(node).Condition(CNI, "True", At(3)).Obj(), At(3))
	if diff := cmp.Diff(map[types.UID]bool{"u-gpu": true}, out.Shared); diff != "" {
		t.Errorf("shared, once the oldest has gone (-want +got):\n%s", diff)
	}
	_, out, _ = NewWorld(t, Incumbents(), RuleOf("disk", Disk, Key)).Pass(Fresh().Taint(Key, "", NoSchedule).Obj(),
		At(1).Add(time.Second/2))
	if diff := cmp.Diff(map[types.UID]bool{"u-disk": true}, out.Shared); diff != "" {
		t.Errorf("shared with an inherited claim of the same second, as the record has it (-want +got):\n%s", diff)
	}
}

func TestThreeRulesWithThreeTaintsAreOnePatch(t *testing.T) {
	rules := []*build.RuleWrapper{Rule(), RuleOf("disk", Disk, diskKey),
		RuleOf("gpu", "example.com/GPU", "readiness.k8s.io/gpu")}
	gpuPending := "readiness.k8s.io/gpu=pending:NoSchedule"
	all := func(status corev1.ConditionStatus, s int) Edit {
		return func(n *build.NodeWrapper) {
			n.Condition(CNI, status, At(s)).Condition(Disk, status, At(s)).Condition("example.com/GPU", status, At(s))
		}
	}
	Play(t, map[string]Story{"all change at once": On(crowd(Fresh(), 0, 20), rules,
		Then(1, "held", "Held EvidenceMissing, disk Held EvidenceMissing, gpu Held EvidenceMissing", Added,
			Change("added disk "+diskPending), Change("added gpu "+gpuPending),
			Tainted(append(crowded(0, 20), Pending, diskPending, gpuPending))),
		Then(2, "ready", "Ready EvidenceHolds, disk Ready EvidenceHolds, gpu Ready EvidenceHolds", all("True", 2), Removed,
			Change("removed disk "+diskPending), Change("removed gpu "+gpuPending), Tainted(crowded(0, 20))),
		Then(3, "not ready", "Held EvidenceMissing, disk Held EvidenceMissing, gpu Held EvidenceMissing", all("False", 3),
			Added, Change("added disk "+diskPending), Change("added gpu "+gpuPending),
			Tainted(append(crowded(0, 20), Pending, diskPending, gpuPending))),
	)})
}

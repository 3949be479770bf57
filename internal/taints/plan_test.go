// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
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
		"it goes with the rule": On(Fresh().Taint(Key, "kubelet", NoSchedule), Rules(Rule()),
			Then(1, "seen", "Held EvidenceMissing", Adopted, Tainted{registered}),
			Then(5, "deleted", "cni", Rules(Rule().Deleted(At(5))), Removed, Clean),
		),
		"it goes when the node is relabelled": On(Fresh().Taint(Key, "kubelet", NoSchedule), Rules(Rule()),
			Then(1, "seen", "Held EvidenceMissing", Adopted, Tainted{registered}),
			Then(5, "relabelled", "cni", func(n *build.NodeWrapper) { n.Unlabel("pool") }, Removed, Clean),
		),
		"one on a node that is ready goes at once": On(Old().Condition(CNI, "True", At(-900)).Taint(Key, "", NoSchedule),
			Rules(Rule()),
			Then(1, "seen", "Ready EvidenceHolds", Removed),
		),
		"one of the same key with another effect is foreign": On(Fresh().Taint(Key, "pending", NoExecute), Rules(Rule()),
			Then(1, "seen", "Held EvidenceMissing", Added, Tainted{Key + "=pending:NoExecute", Pending}),
			Then(9, "ready", "Ready EvidenceHolds", Ready(9), Removed, Tainted{Key + "=pending:NoExecute"}),
		),
		"one of another key with the same value and effect is foreign": On(
			Fresh().Taint(diskKey, "pending", NoSchedule).Condition(CNI, "True", At(0)), Rules(Rule()),
			Then(1, "seen", "Ready EvidenceHolds", Tainted{diskPending}, Written),
		),
		"twenty foreign taints stay, in their order": On(
			crowd(crowd(Fresh(), 0, 10).Taint(Key, "kubelet", NoSchedule), 10, 20), Rules(Rule()),
			Then(1, "seen", "Held EvidenceMissing", Adopted,
				Tainted(append(append(crowded(0, 10), registered), crowded(10, 20)...))),
			Then(9, "ready", "Ready EvidenceHolds", Ready(9), Removed, Tainted(crowded(0, 20))),
			Then(19, "unready", "Held EvidenceMissing", Unready(19), Added, Tainted(append(crowded(0, 20), Pending))),
			Then(29, "deleted", "cni", Rules(Rule().Deleted(At(29))), Removed, Tainted(crowded(0, 20))),
		),
		"a node without taints or annotations": On(Fresh(), Rules(Rule()),
			Then(1, "held", "Held EvidenceMissing", Added, Recorded(Claimed(1))),
			Then(9, "deleted", "cni", Rules(Rule().Deleted(At(9))), Removed, Clean),
		),
		"a taint of the rule on a node that does not match is foreign": On(
			Fresh().Unlabel("pool").Taint(Key, "pending", NoSchedule), Rules(Rule()),
			Then(1, "seen", "", Tainted{Pending}),
		),
		"a claim whose taint a user has removed is restored": On(Fresh(), Rules(Rule()),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(2, "taken off", "Held EvidenceMissing", func(n *build.NodeWrapper) { n.Untaint(Key) }, Added,
				Recorded(Claimed(1))),
		),
		"a claim whose record a user has removed is adopted": On(Fresh(), Rules(Rule()),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(2, "taken off", "Held EvidenceMissing", func(n *build.NodeWrapper) { n.Unannotate(RecordKey) }, Adopted,
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
	edited := func(taintKey, value string, effect corev1.TaintEffect) []*build.RuleWrapper {
		return []*build.RuleWrapper{Rule().Generation(2).Taint(taintKey, value, effect)}
	}
	record := func(taint string, since int) map[string]string {
		return map[string]string{RecordKey: fmt.Sprintf(`{"rule":"cni","taint":%q,"since":%q}`, taint, Stamp(since))}
	}
	Play(t, map[string]Story{
		"another key: the old one is gone and the new one there, in one patch": On(Fresh(), Rules(Rule()),
			held,
			Then(5, "edited", "Held EvidenceMissing", edited("example.com/new", "pending", NoSchedule), Removed,
				Change("added cni example.com/new=pending:NoSchedule"), Tainted{"example.com/new=pending:NoSchedule"},
				record("example.com/new=pending:NoSchedule", 1)),
		),
		"another effect": On(Fresh(), Rules(Rule()),
			held,
			Then(5, "edited", "Held EvidenceMissing", edited(Key, "pending", NoExecute), Removed,
				Change("added cni "+Key+"=pending:NoExecute"), Tainted{Key + "=pending:NoExecute"},
				record(Key+"=pending:NoExecute", 1)),
		),
		"another value": On(Fresh(), Rules(Rule()),
			held,
			Then(5, "edited", "Held EvidenceMissing", edited(Key, "edited", NoSchedule), Tainted{Key + "=edited:NoSchedule"},
				record(Key+"=edited:NoSchedule", 1)),
		),
		"another key, which another client has added already": On(Fresh(), Rules(Rule()),
			held,
			Then(5, "edited", "Held EvidenceMissing", edited("example.com/new", "pending", NoSchedule),
				func(n *build.NodeWrapper) { n.Taint("example.com/new", "theirs", NoSchedule) }, Removed,
				Tainted{"example.com/new=theirs:NoSchedule"}),
		),
		"another key, while the operator was down, and the node is ready meanwhile": On(Fresh(), Rules(Rule()),
			held,
			Then(5, "edited", "Ready EvidenceHolds", Restarted, edited("example.com/new", "pending", NoSchedule), Ready(4),
				Removed, Recorded(Released(5))),
		),
		"another selector, which does not match": On(Fresh(), Rules(Rule()),
			held,
			Then(5, "edited", "cni", Rules(Rule().Generation(2).Selector("zone", "b")), Removed, Clean),
		),
		"other conditions": On(Fresh().Condition(Disk, "True", At(0)), Rules(Rule()),
			held,
			Then(5, "edited", "Ready EvidenceHolds", Rules(RuleOf("cni", Disk, Key)), Removed),
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
	out := func(n *build.NodeWrapper) { n.Unlabel("pool") }
	in := func(n *build.NodeWrapper) { n.Label("pool", "workers") }
	Play(t, map[string]Story{
		"relabelled out and in while not ready": On(Fresh(), Rules(Rule()),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(2, "out", "cni", out, Removed, Clean),
			Then(3, "still out", ""),
			Then(4, "in", "Held EvidenceMissing", in, Added, Recorded(Claimed(4))),
		),
		"relabelled out while the operator was down": On(Fresh(), Rules(Rule()),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(2, "out", "cni", Restarted, out, Removed, Clean),
		),
		"relabelled from one rule to another, in one patch": On(Fresh(),
			Rules(Rule(), RuleOf("disk", Disk, diskKey).Selector("pool", "storage")),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(2, "relabelled", "cni, disk Held EvidenceMissing", func(n *build.NodeWrapper) { n.Label("pool", "storage") },
				Removed, Change("added disk "+diskPending), Tainted{diskPending}),
		),
		"relabelled from one rule to another with the same taint: it does not go": On(Fresh(),
			Rules(Rule(), RuleOf("disk", Disk, Key).Selector("pool", "storage")),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(2, "relabelled", "cni, disk Held EvidenceMissing", func(n *build.NodeWrapper) { n.Label("pool", "storage") },
				Tainted{Pending}, Written),
		),
		"a node that never matched is not looked at": On(Fresh().Unlabel("pool"), Rules(Rule()),
			Then(1, "seen", ""),
		),
	})
}

func TestModes(t *testing.T) {
	held := Then(1, "held", "Held EvidenceMissing", Added)
	frozen := func() *build.RuleWrapper {
		r := Rule().Generation(2)
		r.Spec.Requirements = []v1alpha1.Requirement{{Name: "future"}}
		return r
	}
	elder, elders := RuleOf("disk", Disk, Key).Taint(Key, "b", NoSchedule).Created(At(-90000)), Key+"=b:NoSchedule"
	garbage := func(n *build.NodeWrapper) { n.Annotation(RecordKey, `{"taint":"`+Pending+`","future":true} `) }
	Play(t, map[string]Story{
		"deleted: claim and record go; what is not yet adopted stays": On(Fresh().Taint(Key, "kubelet", NoSchedule),
			Rules(Rule().Deleted(At(0))),
			Then(1, "seen", "cni", Tainted{Key + "=kubelet:NoSchedule"}),
		),
		"deleted: a ready node's record goes": On(Fresh().Condition(CNI, "True", At(0)), Rules(Rule()),
			Then(1, "ready", "Ready EvidenceHolds", Written),
			Then(2, "deleted", "cni", Rules(Rule().Deleted(At(2))), Clean),
		),
		"deleted goes before invalid": On(Fresh(), Rules(Rule()),
			held,
			Then(2, "both", "cni", Rules(frozen().Deleted(At(2))), Removed, Clean),
		),
		"invalid: what is there stays, byte for byte": On(Fresh(), Rules(Rule()),
			held,
			Then(2, "invalid and ready", "Held NotInForce", Rules(frozen()),
				func(n *build.NodeWrapper) { garbage(n); Ready(2)(n) }),
			Then(3, "relabelled", "cni", func(n *build.NodeWrapper) { n.Unlabel("pool") }, Tainted{Pending}),
			Then(4, "an override", "cni", func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, "Release") },
				Tainted{Pending}),
			Then(5, "fixed", "cni", Rules(Rule().Generation(3)),
				func(n *build.NodeWrapper) { n.Unannotate(v1alpha1.OverrideAnnotation) }, Removed, Clean),
		),
		"invalid: what is not there stays away": On(Fresh(), Rules(frozen()),
			Then(1, "seen", "Exempt NotInForce"),
		),
		"invalid: a taint that a user has removed is not added again": On(Fresh(), Rules(Rule()),
			held,
			Then(2, "taken off", "Held NotInForce", Rules(frozen()), func(n *build.NodeWrapper) { n.Untaint(Key) }, Untainted),
		),
		"invalid: markers and garbage stay": On(
			Fresh().Annotation(RecordKey, "{").Annotation(MarkerKey, "x").Annotation(OldMarker, "y"), Rules(frozen()),
			Then(1, "seen", "Exempt NotInForce"),
		),
		"invalid: its claim stands in a shared taint, which keeps the value of the other": On(Fresh(), Rules(elder, Rule()),
			Then(1, "both hold", "disk Held EvidenceMissing, Held EvidenceMissing", Change("added disk "+elders), Added,
				Tainted{elders}),
			Then(2, "one invalid, the other ready", "disk Ready EvidenceHolds, Held NotInForce", Rules(elder, frozen()),
				func(n *build.NodeWrapper) { n.Condition(Disk, "True", At(2)).Condition(CNI, "True", At(2)) },
				Tainted{elders}, Written),
		),
		"invalid: it does not stand in the way of one that shares its taint": On(Fresh(),
			Rules(Rule(), RuleOf("disk", Disk, Key)),
			Then(1, "both hold", "Held EvidenceMissing, disk Held EvidenceMissing", Added, Change("added disk "+Pending)),
			Then(2, "one invalid, and a user removes the taint", "Held NotInForce, disk Held EvidenceMissing",
				Rules(frozen(), RuleOf("disk", Disk, Key)), func(n *build.NodeWrapper) { n.Untaint(Key) },
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
		"dry-run, set on a node with a foreign taint, and deleted: the taint stays": On(
			Fresh().Taint(Key, "kubelet", NoSchedule), Rules(Rule().DryRun(true).Deleted(At(0))),
			Then(1, "seen", "cni", Tainted{Key + "=kubelet:NoSchedule"}),
		),
	})
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
		"nothing on one that has completed": {rules: []*build.RuleWrapper{dry().BootstrapOnly()},
			node: Fresh().Annotation(MarkerKey, IsMarked)},
		"nothing on an existing node, where those are left": {rules: []*build.RuleWrapper{dry().ExistingNodes("None")},
			node: Old()},
		"tainting an existing node": {rules: []*build.RuleWrapper{dry()}, node: Old(), claim: true},
		"nothing on a terminating one": {rules: []*build.RuleWrapper{dry()},
			node: Fresh().Terminating(At(0))},
		"nothing on one that an override releases": {rules: []*build.RuleWrapper{dry()},
			node: Fresh().Annotation(v1alpha1.OverrideAnnotation, "Release")},
		"nothing on one that does not match": {rules: []*build.RuleWrapper{dry()},
			node: Fresh().Unlabel("pool").Annotation(RecordKey, "{}")},
		"tainting one that has rebooted": {
			rules: []*build.RuleWrapper{dry().RearmOnReboot()}, claim: true,
			node: Fresh().BootID("b2").Annotation(RecordKey, `{"bootID":"b1"}`).Condition(CNI, "True", At(0)).Condition("Ready",
				"True", At(0)).Heartbeat(CNI, At(-1)),
		},
		"not taking off what another rule holds": {
			rules: []*build.RuleWrapper{dry(), RuleOf("disk", Disk, Key)}, node: Fresh().Condition(CNI, "True", At(0)).Taint(Key,
				"pending", NoSchedule).
				Annotation("readiness.node.x-k8s.io/rule-u-disk", `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
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

func TestSharedTaint(t *testing.T) {
	second := func(value string) *build.RuleWrapper { return RuleOf("disk", Disk, Key).Taint(Key, value, NoSchedule) }
	third := func(value string) *build.RuleWrapper {
		return RuleOf("gpu", "example.com/GPU", Key).Taint(Key, value, NoSchedule)
	}
	b, c := Key+"=b:NoSchedule", Key+"=c:NoSchedule"
	diskReady := func(s int) func(n *build.NodeWrapper) {
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
		"both ready at once": On(Fresh(), Rules(Rule(), second("pending")),
			Then(1, "both", "Held EvidenceMissing, disk Held EvidenceMissing", Added, Change("added disk "+Pending)),
			Then(2, "ready", "Ready EvidenceHolds, disk Ready EvidenceHolds",
				func(n *build.NodeWrapper) { Ready(2)(n); diskReady(2)(n) }, Removed, Change("removed disk "+Pending)),
		),
		"the oldest claim gives the value, and hands it over when it goes": On(Fresh(), Rules(Rule()),
			Then(1, "the first", "Held EvidenceMissing", Added),
			func() Step { s := both; s.Rules = []*build.RuleWrapper{Rule(), second("b")}; return s }(),
			Then(3, "the first is ready", "Ready EvidenceHolds, disk Held EvidenceMissing", Ready(3), Tainted{b}, Written),
			Then(4, "the first is not ready", "Held EvidenceMissing, disk Held EvidenceMissing", Unready(4), Tainted{b},
				Written),
			Then(5, "the second is deleted", "Held EvidenceMissing, disk", Rules(Rule(), second("b").Deleted(At(5))), Written),
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
		"an adopted value stays through it all": On(Fresh().Taint(Key, "kubelet", NoSchedule), Rules(Rule(), second("b")),
			Then(1, "both", "Held EvidenceMissing, disk Held EvidenceMissing", Adopted, Change("adopted disk "+b),
				Tainted{Key + "=kubelet:NoSchedule"}),
			Then(2, "one ready", "Ready EvidenceHolds, disk Held EvidenceMissing", Ready(2),
				Tainted{Key + "=kubelet:NoSchedule"}, Written),
		),
		"what another rule holds is no adoption: an existing node stays exempt": On(Old(),
			Rules(Rule(), second("b").ExistingNodes("None")),
			Then(1, "seen", "Held EvidenceMissing, disk Exempt ExistingNode", Added),
			Then(2, "again", "Held EvidenceMissing, disk Exempt ExistingNode", Restarted),
			Then(3, "ready", "Ready EvidenceHolds, disk Exempt ExistingNode", Ready(3), Removed),
		),
		"what another rule holds does not end unreadySeconds": On(Fresh().
			Annotation("readiness.node.x-k8s.io/rule-u-disk", fmt.Sprintf(`{"rule":"disk","released":%q}`, Stamp(0))),
			Rules(Rule(), second("b").UnreadySeconds(30)),
			Then(1, "held by one", "Held EvidenceMissing, disk Ready UnreadyWindow",
				func(n *build.NodeWrapper) { n.Condition(Disk, "False", At(1)) }, Added, Again(31)),
			Then(30, "again", "Held EvidenceMissing, disk Ready UnreadyWindow", Again(31)),
			Then(31, "at its end", "Held EvidenceMissing, disk Held EvidenceMissing", Written),
		),
		"what another rule holds does not bypass the limit": On(Old(), Rules(Rule(), second("b").MaxUnavailable("0")),
			Then(1, "seen", "Held EvidenceMissing, disk Exempt OverBudget", Refuse{"disk"}, Added),
			Then(2, "again", "Held EvidenceMissing, disk Exempt OverBudget"),
		),
	})
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
	all := func(status corev1.ConditionStatus, s int) func(n *build.NodeWrapper) {
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

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

const (
	diskKey     = "readiness.k8s.io/disk"
	diskPending = diskKey + "=pending:NoSchedule"
)

// crowd adds so many unrelated taints.
func crowd(n *build.NodeWrapper, from, to int) *build.NodeWrapper {
	for i := from; i < to; i++ {
		n.Taint(fmt.Sprintf("foreign.example.com/t%d", i), "x", []corev1.TaintEffect{noSchedule, noExecute,
			corev1.TaintEffectPreferNoSchedule}[i%3])
	}
	return n
}

func crowded(from, to int) []string { return formatted(crowd(fresh(), from, to).Obj()) }

func TestAdoption(t *testing.T) {
	registered := key + "=kubelet:NoSchedule"
	play(t, map[string]story{
		"a taint that kubelet registered keeps its value, and goes when the node is ready": on(
			fresh().Taint(key, "kubelet", noSchedule), rules(rule()),
			then(1, "seen", "Held EvidenceMissing", adopted, tainted{registered}, recorded(foreign(claimed(1)))),
			then(2, "later", "Held EvidenceMissing", restarted, tainted{registered}),
			then(9, "ready", "Ready EvidenceHolds", ready(9), removed),
		),
		"its value changes when the rule's is edited": on(fresh().Taint(key, "kubelet", noSchedule), rules(rule()),
			then(1, "seen", "Held EvidenceMissing", adopted, tainted{registered}),
			then(5, "edited", "Held EvidenceMissing", rules(rule().Taint(key, "later", noSchedule)),
				tainted{key + "=later:NoSchedule"}, written),
		),
		"it goes with the rule": on(fresh().Taint(key, "kubelet", noSchedule), rules(rule()),
			then(1, "seen", "Held EvidenceMissing", adopted, tainted{registered}),
			then(5, "deleted", "cni", rules(rule().Deleted(at(5))), removed, clean),
		),
		"it goes when the node is relabelled": on(fresh().Taint(key, "kubelet", noSchedule), rules(rule()),
			then(1, "seen", "Held EvidenceMissing", adopted, tainted{registered}),
			then(5, "relabelled", "cni", func(n *build.NodeWrapper) { n.Unlabel("pool") }, removed, clean),
		),
		"one on a node that is ready goes at once": on(old().Condition(cni, "True", at(-900)).Taint(key, "", noSchedule),
			rules(rule()),
			then(1, "seen", "Ready EvidenceHolds", removed),
		),
		"one of the same key with another effect is foreign": on(fresh().Taint(key, "pending", noExecute), rules(rule()),
			then(1, "seen", "Held EvidenceMissing", added, tainted{key + "=pending:NoExecute", pending}),
			then(9, "ready", "Ready EvidenceHolds", ready(9), removed, tainted{key + "=pending:NoExecute"}),
		),
		"one of another key with the same value and effect is foreign": on(
			fresh().Taint(diskKey, "pending", noSchedule).Condition(cni, "True", at(0)), rules(rule()),
			then(1, "seen", "Ready EvidenceHolds", tainted{diskPending}, written),
		),
		"twenty foreign taints stay, in their order": on(
			crowd(crowd(fresh(), 0, 10).Taint(key, "kubelet", noSchedule), 10, 20), rules(rule()),
			then(1, "seen", "Held EvidenceMissing", adopted,
				tainted(append(append(crowded(0, 10), registered), crowded(10, 20)...))),
			then(9, "ready", "Ready EvidenceHolds", ready(9), removed, tainted(crowded(0, 20))),
			then(19, "unready", "Held EvidenceMissing", unready(19), added, tainted(append(crowded(0, 20), pending))),
			then(29, "deleted", "cni", rules(rule().Deleted(at(29))), removed, tainted(crowded(0, 20))),
		),
		"a node without taints or annotations": on(fresh(), rules(rule()),
			then(1, "held", "Held EvidenceMissing", added, recorded(claimed(1))),
			then(9, "deleted", "cni", rules(rule().Deleted(at(9))), removed, clean),
		),
		"a taint of the rule on a node that does not match is foreign": on(
			fresh().Unlabel("pool").Taint(key, "pending", noSchedule), rules(rule()),
			then(1, "seen", "", tainted{pending}),
		),
		"a claim whose taint a user has removed is restored": on(fresh(), rules(rule()),
			then(1, "held", "Held EvidenceMissing", added),
			then(2, "taken off", "Held EvidenceMissing", func(n *build.NodeWrapper) { n.Untaint(key) }, added,
				recorded(claimed(1))),
		),
		"a claim whose record a user has removed is adopted": on(fresh(), rules(rule()),
			then(1, "held", "Held EvidenceMissing", added),
			then(2, "taken off", "Held EvidenceMissing", func(n *build.NodeWrapper) { n.Unannotate(recordKey) }, adopted,
				recorded(foreign(claimed(2)))),
		),
	})
}

func TestNoExecuteSaysSinceWhen(t *testing.T) {
	w := newWorld(t, rule().Taint(key, "pending", noExecute))
	node, _, _ := w.pass(fresh().Obj(), at(7))
	if got := node.Spec.Taints[0].TimeAdded; got == nil || !got.Time.Equal(at(7)) {
		t.Errorf("timeAdded is %v, want %s", got, at(7))
	}
	w.objects = []*build.RuleWrapper{rule().Taint(key, "edited", noExecute)}
	node, _, _ = w.pass(node, at(20))
	if got := node.Spec.Taints[0]; got.Value != "edited" || !got.TimeAdded.Time.Equal(at(7)) {
		t.Errorf("after an edit it is %+v, want the time it had", got)
	}
}

func TestEdits(t *testing.T) {
	held := then(1, "held", "Held EvidenceMissing", added)
	edited := func(taintKey, value string, effect corev1.TaintEffect) []*build.RuleWrapper {
		return []*build.RuleWrapper{rule().Generation(2).Taint(taintKey, value, effect)}
	}
	record := func(taint string, since int) map[string]string {
		return map[string]string{recordKey: fmt.Sprintf(`{"rule":"cni","taint":%q,"since":%q}`, taint, stamp(since))}
	}
	play(t, map[string]story{
		"another key: the old one is gone and the new one there, in one patch": on(fresh(), rules(rule()),
			held,
			then(5, "edited", "Held EvidenceMissing", edited("example.com/new", "pending", noSchedule), removed,
				change("added cni example.com/new=pending:NoSchedule"), tainted{"example.com/new=pending:NoSchedule"},
				record("example.com/new=pending:NoSchedule", 1)),
		),
		"another effect": on(fresh(), rules(rule()),
			held,
			then(5, "edited", "Held EvidenceMissing", edited(key, "pending", noExecute), removed,
				change("added cni "+key+"=pending:NoExecute"), tainted{key + "=pending:NoExecute"},
				record(key+"=pending:NoExecute", 1)),
		),
		"another value": on(fresh(), rules(rule()),
			held,
			then(5, "edited", "Held EvidenceMissing", edited(key, "edited", noSchedule), tainted{key + "=edited:NoSchedule"},
				record(key+"=edited:NoSchedule", 1)),
		),
		"another key, which another client has added already": on(fresh(), rules(rule()),
			held,
			then(5, "edited", "Held EvidenceMissing", edited("example.com/new", "pending", noSchedule),
				func(n *build.NodeWrapper) { n.Taint("example.com/new", "theirs", noSchedule) }, removed,
				tainted{"example.com/new=theirs:NoSchedule"}),
		),
		"another key, while the operator was down, and the node is ready meanwhile": on(fresh(), rules(rule()),
			held,
			then(5, "edited", "Ready EvidenceHolds", restarted, edited("example.com/new", "pending", noSchedule), ready(4),
				removed, recorded(released(5))),
		),
		"another selector, which does not match": on(fresh(), rules(rule()),
			held,
			then(5, "edited", "cni", rules(rule().Generation(2).Selector("zone", "b")), removed, clean),
		),
		"other conditions": on(fresh().Condition(disk, "True", at(0)), rules(rule()),
			held,
			then(5, "edited", "Ready EvidenceHolds", rules(ruleOf("cni", disk, key)), removed),
		),
		"a suspended rule does not put its edited taint on": on(fresh(), rules(rule()),
			held,
			then(5, "edited", "Exempt Suspended", tainted{pending},
				rules(rule().Generation(2).Taint("example.com/new", "", noSchedule).Suspend(true))),
			then(6, "in force", "Held EvidenceMissing", edited("example.com/new", "", noSchedule), removed,
				change("added cni example.com/new=:NoSchedule"), tainted{"example.com/new=:NoSchedule"}),
		),
	})
}

func TestLabels(t *testing.T) {
	out := func(n *build.NodeWrapper) { n.Unlabel("pool") }
	in := func(n *build.NodeWrapper) { n.Label("pool", "workers") }
	play(t, map[string]story{
		"relabelled out and in while not ready": on(fresh(), rules(rule()),
			then(1, "held", "Held EvidenceMissing", added),
			then(2, "out", "cni", out, removed, clean),
			then(3, "still out", ""),
			then(4, "in", "Held EvidenceMissing", in, added, recorded(claimed(4))),
		),
		"relabelled out while the operator was down": on(fresh(), rules(rule()),
			then(1, "held", "Held EvidenceMissing", added),
			then(2, "out", "cni", restarted, out, removed, clean),
		),
		"relabelled from one rule to another, in one patch": on(fresh(),
			rules(rule(), ruleOf("disk", disk, diskKey).Selector("pool", "storage")),
			then(1, "held", "Held EvidenceMissing", added),
			then(2, "relabelled", "cni, disk Held EvidenceMissing", func(n *build.NodeWrapper) { n.Label("pool", "storage") },
				removed, change("added disk "+diskPending), tainted{diskPending}),
		),
		"relabelled from one rule to another with the same taint: it does not go": on(fresh(),
			rules(rule(), ruleOf("disk", disk, key).Selector("pool", "storage")),
			then(1, "held", "Held EvidenceMissing", added),
			then(2, "relabelled", "cni, disk Held EvidenceMissing", func(n *build.NodeWrapper) { n.Label("pool", "storage") },
				tainted{pending}, written),
		),
		"a node that never matched is not looked at": on(fresh().Unlabel("pool"), rules(rule()),
			then(1, "seen", ""),
		),
	})
}

func TestModes(t *testing.T) {
	held := then(1, "held", "Held EvidenceMissing", added)
	frozen := func() *build.RuleWrapper {
		r := rule().Generation(2)
		r.Spec.Requirements = []v1alpha1.Requirement{{Name: "future"}}
		return r
	}
	elder, elders := ruleOf("disk", disk, key).Taint(key, "b", noSchedule).Created(at(-90000)), key+"=b:NoSchedule"
	garbage := func(n *build.NodeWrapper) { n.Annotation(recordKey, `{"taint":"`+pending+`","future":true} `) }
	play(t, map[string]story{
		"deleted: claim and record go; what is not yet adopted stays": on(fresh().Taint(key, "kubelet", noSchedule),
			rules(rule().Deleted(at(0))),
			then(1, "seen", "cni", tainted{key + "=kubelet:NoSchedule"}),
		),
		"deleted: a ready node's record goes": on(fresh().Condition(cni, "True", at(0)), rules(rule()),
			then(1, "ready", "Ready EvidenceHolds", written),
			then(2, "deleted", "cni", rules(rule().Deleted(at(2))), clean),
		),
		"deleted goes before invalid": on(fresh(), rules(rule()),
			held,
			then(2, "both", "cni", rules(frozen().Deleted(at(2))), removed, clean),
		),
		"invalid: what is there stays, byte for byte": on(fresh(), rules(rule()),
			held,
			then(2, "invalid and ready", "Held NotInForce", rules(frozen()),
				func(n *build.NodeWrapper) { garbage(n); ready(2)(n) }),
			then(3, "relabelled", "cni", func(n *build.NodeWrapper) { n.Unlabel("pool") }, tainted{pending}),
			then(4, "an override", "cni", func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, "Release") },
				tainted{pending}),
			then(5, "fixed", "cni", rules(rule().Generation(3)),
				func(n *build.NodeWrapper) { n.Unannotate(v1alpha1.OverrideAnnotation) }, removed, clean),
		),
		"invalid: what is not there stays away": on(fresh(), rules(frozen()),
			then(1, "seen", "Exempt NotInForce"),
		),
		"invalid: a taint that a user has removed is not added again": on(fresh(), rules(rule()),
			held,
			then(2, "taken off", "Held NotInForce", rules(frozen()), func(n *build.NodeWrapper) { n.Untaint(key) }, untainted),
		),
		"invalid: markers and garbage stay": on(
			fresh().Annotation(recordKey, "{").Annotation(markerKey, "x").Annotation(oldMarker, "y"), rules(frozen()),
			then(1, "seen", "Exempt NotInForce"),
		),
		"invalid: its claim stands in a shared taint, which keeps the value of the other": on(fresh(), rules(elder, rule()),
			then(1, "both hold", "disk Held EvidenceMissing, Held EvidenceMissing", change("added disk "+elders), added,
				tainted{elders}),
			then(2, "one invalid, the other ready", "disk Ready EvidenceHolds, Held NotInForce", rules(elder, frozen()),
				func(n *build.NodeWrapper) { n.Condition(disk, "True", at(2)).Condition(cni, "True", at(2)) },
				tainted{elders}, written),
		),
		"invalid: it does not stand in the way of one that shares its taint": on(fresh(),
			rules(rule(), ruleOf("disk", disk, key)),
			then(1, "both hold", "Held EvidenceMissing, disk Held EvidenceMissing", added, change("added disk "+pending)),
			then(2, "one invalid, and a user removes the taint", "Held NotInForce, disk Held EvidenceMissing",
				rules(frozen(), ruleOf("disk", disk, key)), func(n *build.NodeWrapper) { n.Untaint(key) },
				change("added disk "+pending)),
		),
		"dry-run and back: claims go, nothing is added, then they come back": on(fresh(), rules(rule()),
			held,
			then(2, "dry-run", "Exempt DryRun", rules(rule().Generation(2).DryRun(true)), removed, clean),
			then(3, "ready", "Ready EvidenceHolds", ready(3)),
			then(4, "not ready", "Exempt DryRun", unready(4)),
			then(5, "back", "Held EvidenceMissing", rules(rule().Generation(3)), added),
		),
		"dry-run keeps what the node has been through": on(fresh().BootID("b1").Condition(cni, "True", at(0)),
			rules(rule().BootstrapOnly().RearmOnReboot()),
			then(1, "completed", "Ready EvidenceHolds", change("completed cni")),
			then(2, "dry-run", "Ready BootstrapCompleted", rules(rule().BootstrapOnly().RearmOnReboot().DryRun(true))),
		),
		"dry-run does not manage what another client added": on(
			fresh().Taint(key, "kubelet", noSchedule).Condition(cni, "True", at(0)), rules(rule().DryRun(true)),
			then(1, "seen", "Ready EvidenceHolds", tainted{key + "=kubelet:NoSchedule"}),
		),
		"dry-run, set on a node with a foreign taint, and deleted: the taint stays": on(
			fresh().Taint(key, "kubelet", noSchedule), rules(rule().DryRun(true).Deleted(at(0))),
			then(1, "seen", "cni", tainted{key + "=kubelet:NoSchedule"}),
		),
	})
}

func TestDryRunSaysWhatItWouldDo(t *testing.T) {
	dry := func() *build.RuleWrapper { return rule().DryRun(true) }
	cases := map[string]struct {
		rules          []*build.RuleWrapper
		node           *build.NodeWrapper
		claim, release bool
	}{
		"tainting a node that is not ready": {rules: []*build.RuleWrapper{dry()}, node: fresh(), claim: true},
		"nothing on one that is": {rules: []*build.RuleWrapper{dry()},
			node: fresh().Condition(cni, "True", at(0))},
		"nothing on one that has the taint already": {rules: []*build.RuleWrapper{dry()},
			node: fresh().Taint(key, "", noSchedule)},
		"taking it off one that is ready": {rules: []*build.RuleWrapper{dry()},
			node: fresh().Taint(key, "", noSchedule).Condition(cni, "True", at(0)), release: true},
		"nothing on one that has completed": {rules: []*build.RuleWrapper{dry().BootstrapOnly()},
			node: fresh().Annotation(markerKey, isMarked)},
		"nothing on an existing node, where those are left": {rules: []*build.RuleWrapper{dry().ExistingNodes("None")},
			node: old()},
		"tainting an existing node": {rules: []*build.RuleWrapper{dry()}, node: old(), claim: true},
		"nothing on a terminating one": {rules: []*build.RuleWrapper{dry()},
			node: fresh().Terminating(at(0))},
		"nothing on one that an override releases": {rules: []*build.RuleWrapper{dry()},
			node: fresh().Annotation(v1alpha1.OverrideAnnotation, "Release")},
		"nothing on one that does not match": {rules: []*build.RuleWrapper{dry()},
			node: fresh().Unlabel("pool").Annotation(recordKey, "{}")},
		"tainting one that has rebooted": {
			rules: []*build.RuleWrapper{dry().RearmOnReboot()}, claim: true,
			node: fresh().BootID("b2").Annotation(recordKey, `{"bootID":"b1"}`).Condition(cni, "True", at(0)).Condition("Ready",
				"True", at(0)).Heartbeat(cni, at(-1)),
		},
		"not taking off what another rule holds": {
			rules: []*build.RuleWrapper{dry(), ruleOf("disk", disk, key)}, node: fresh().Condition(cni, "True", at(0)).Taint(key,
				"pending", noSchedule).
				Annotation("readiness.node.x-k8s.io/rule-u-disk", `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, decisions := newWorld(t, c.rules...).pass(c.node.Obj(), at(5))
			if diff := cmp.Diff([]bool{c.claim, c.release}, []bool{decisions[0].WouldClaim,
				decisions[0].WouldRelease}); diff != "" {
				t.Errorf("would claim, would release (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSharedTaint(t *testing.T) {
	second := func(value string) *build.RuleWrapper { return ruleOf("disk", disk, key).Taint(key, value, noSchedule) }
	third := func(value string) *build.RuleWrapper {
		return ruleOf("gpu", "example.com/GPU", key).Taint(key, value, noSchedule)
	}
	b, c := key+"=b:NoSchedule", key+"=c:NoSchedule"
	diskReady := func(s int) func(n *build.NodeWrapper) {
		return func(n *build.NodeWrapper) { n.Condition(disk, "True", at(s)) }
	}
	both := then(2, "both hold", "Held EvidenceMissing, disk Held EvidenceMissing", written)
	play(t, map[string]story{
		"it stands while any of them claims it": on(fresh(), rules(rule(), second("pending")),
			then(1, "both", "Held EvidenceMissing, disk Held EvidenceMissing", added, change("added disk "+pending)),
			then(2, "one ready", "Ready EvidenceHolds, disk Held EvidenceMissing", ready(2), tainted{pending}, written),
			then(3, "the other ready", "Ready EvidenceHolds, disk Ready EvidenceHolds", diskReady(3),
				change("removed disk "+pending)),
		),
		"both ready at once": on(fresh(), rules(rule(), second("pending")),
			then(1, "both", "Held EvidenceMissing, disk Held EvidenceMissing", added, change("added disk "+pending)),
			then(2, "ready", "Ready EvidenceHolds, disk Ready EvidenceHolds",
				func(n *build.NodeWrapper) { ready(2)(n); diskReady(2)(n) }, removed, change("removed disk "+pending)),
		),
		"the oldest claim gives the value, and hands it over when it goes": on(fresh(), rules(rule()),
			then(1, "the first", "Held EvidenceMissing", added),
			func() step { s := both; s.rules = []*build.RuleWrapper{rule(), second("b")}; return s }(),
			then(3, "the first is ready", "Ready EvidenceHolds, disk Held EvidenceMissing", ready(3), tainted{b}, written),
			then(4, "the first is not ready", "Held EvidenceMissing, disk Held EvidenceMissing", unready(4), tainted{b},
				written),
			then(5, "the second is deleted", "Held EvidenceMissing, disk", rules(rule(), second("b").Deleted(at(5))), written),
		),
		"claims of the same second: the older rule's is the oldest": on(fresh(),
			rules(second("b").Created(at(-90000)), rule()),
			then(1, "both", "disk Held EvidenceMissing, Held EvidenceMissing", change("added disk "+b), added, tainted{b}),
			then(2, "the other edited", "disk Held EvidenceMissing, Held EvidenceMissing",
				rules(second("b").Created(at(-90000)), rule().Taint(key, "c", noSchedule)), tainted{b}, written),
			then(3, "the oldest edited", "disk Held EvidenceMissing, Held EvidenceMissing",
				rules(second("pending").Created(at(-90000)), rule().Taint(key, "c", noSchedule)), written),
			then(4, "the oldest ready", "disk Ready EvidenceHolds, Held EvidenceMissing", diskReady(4), tainted{c}, written),
		),
		"the oldest claim decides, not the oldest rule": on(fresh(), rules(rule()),
			then(1, "the younger rule", "Held EvidenceMissing", added),
			then(2, "the older rule", "disk Held EvidenceMissing, Held EvidenceMissing",
				rules(second("b").Created(at(-90000)), rule()), written),
			then(3, "the older rule edited", "disk Held EvidenceMissing, Held EvidenceMissing",
				rules(second("x").Created(at(-90000)), rule()), written),
			then(4, "the younger rule edited", "disk Held EvidenceMissing, Held EvidenceMissing",
				rules(second("x").Created(at(-90000)), rule().Taint(key, "c", noSchedule)), tainted{c}, written),
		),
		"the oldest moves on to another key: the taint stays, with the other's value": on(fresh(), rules(rule()),
			then(1, "the first", "Held EvidenceMissing", added),
			func() step { s := both; s.rules = []*build.RuleWrapper{rule(), second("b")}; return s }(),
			then(3, "moves on", "Held EvidenceMissing, disk Held EvidenceMissing",
				rules(rule().Taint("example.com/new", "", noSchedule), second("b")),
				change("added cni example.com/new=:NoSchedule"), tainted{b, "example.com/new=:NoSchedule"}),
		),
		"the oldest is a rule that is gone: the value is handed over": on(fresh(), rules(rule()),
			then(1, "the first", "Held EvidenceMissing", added),
			func() step { s := both; s.rules = []*build.RuleWrapper{rule(), second("b")}; return s }(),
			then(3, "gone", "disk Held EvidenceMissing", restarted, rules(second("b")), gone{"u-cni"}, tainted{b}, written),
		),
		"three rules, one after the other": on(fresh(), rules(rule()),
			then(1, "the first", "Held EvidenceMissing", added),
			func() step { s := both; s.rules = []*build.RuleWrapper{rule(), second("b")}; return s }(),
			then(3, "the third", "Held EvidenceMissing, disk Held EvidenceMissing, gpu Held EvidenceMissing",
				rules(rule(), second("b"), third("c")), written),
			then(4, "the second is ready", "Held EvidenceMissing, disk Ready EvidenceHolds, gpu Held EvidenceMissing",
				diskReady(4), written),
			then(5, "the first is ready", "Ready EvidenceHolds, disk Ready EvidenceHolds, gpu Held EvidenceMissing", ready(5),
				tainted{c}, written),
			then(6, "the third goes into dry-run", "Ready EvidenceHolds, disk Ready EvidenceHolds, gpu Exempt DryRun",
				rules(rule(), second("b"), third("c").DryRun(true)), change("removed gpu "+c)),
		),
		"an adopted value stays through it all": on(fresh().Taint(key, "kubelet", noSchedule), rules(rule(), second("b")),
			then(1, "both", "Held EvidenceMissing, disk Held EvidenceMissing", adopted, change("adopted disk "+b),
				tainted{key + "=kubelet:NoSchedule"}),
			then(2, "one ready", "Ready EvidenceHolds, disk Held EvidenceMissing", ready(2),
				tainted{key + "=kubelet:NoSchedule"}, written),
		),
		"what another rule holds is no adoption: an existing node stays exempt": on(old(),
			rules(rule(), second("b").ExistingNodes("None")),
			then(1, "seen", "Held EvidenceMissing, disk Exempt ExistingNode", added),
			then(2, "again", "Held EvidenceMissing, disk Exempt ExistingNode", restarted),
			then(3, "ready", "Ready EvidenceHolds, disk Exempt ExistingNode", ready(3), removed),
		),
		"what another rule holds does not end unreadySeconds": on(fresh().
			Annotation("readiness.node.x-k8s.io/rule-u-disk", fmt.Sprintf(`{"rule":"disk","released":%q}`, stamp(0))),
			rules(rule(), second("b").UnreadySeconds(30)),
			then(1, "held by one", "Held EvidenceMissing, disk Ready UnreadyWindow",
				func(n *build.NodeWrapper) { n.Condition(disk, "False", at(1)) }, added, again(31)),
			then(30, "again", "Held EvidenceMissing, disk Ready UnreadyWindow", again(31)),
			then(31, "at its end", "Held EvidenceMissing, disk Held EvidenceMissing", written),
		),
		"what another rule holds does not bypass the limit": on(old(), rules(rule(), second("b").MaxUnavailable("0")),
			then(1, "seen", "Held EvidenceMissing, disk Exempt OverBudget", refuse{"disk"}, added),
			then(2, "again", "Held EvidenceMissing, disk Exempt OverBudget"),
		),
	})
}

func TestTheOthersReportAConflict(t *testing.T) {
	rules := []*build.RuleWrapper{rule(), ruleOf("disk", disk, key), ruleOf("gpu", "example.com/GPU", key),
		ruleOf("net", "example.com/Net", "example.com/net")}
	w := newWorld(t, rules...)
	node, out, _ := w.pass(fresh().Obj(), at(1))
	want := map[types.UID]bool{"u-disk": true, "u-gpu": true}
	if diff := cmp.Diff(want, out.Shared); diff != "" {
		t.Errorf("shared (-want +got):\n%s", diff)
	}
	_, out, _ = w.pass(node, at(2))
	if diff := cmp.Diff(want, out.Shared); diff != "" {
		t.Errorf("shared, where nothing changes (-want +got):\n%s", diff)
	}
	_, out, _ = w.pass(build.WrapNode(node).Condition(cni, "True", at(3)).Obj(), at(3))
	if diff := cmp.Diff(map[types.UID]bool{"u-gpu": true}, out.Shared); diff != "" {
		t.Errorf("shared, once the oldest has gone (-want +got):\n%s", diff)
	}
	_, out, _ = newWorld(t, incumbents(), ruleOf("disk", disk, key)).pass(fresh().Taint(key, "", noSchedule).Obj(),
		at(1).Add(time.Second/2))
	if diff := cmp.Diff(map[types.UID]bool{"u-disk": true}, out.Shared); diff != "" {
		t.Errorf("shared with an inherited claim of the same second, as the record has it (-want +got):\n%s", diff)
	}
}

func TestThreeRulesWithThreeTaintsAreOnePatch(t *testing.T) {
	rules := []*build.RuleWrapper{rule(), ruleOf("disk", disk, diskKey),
		ruleOf("gpu", "example.com/GPU", "readiness.k8s.io/gpu")}
	gpuPending := "readiness.k8s.io/gpu=pending:NoSchedule"
	all := func(status corev1.ConditionStatus, s int) func(n *build.NodeWrapper) {
		return func(n *build.NodeWrapper) {
			n.Condition(cni, status, at(s)).Condition(disk, status, at(s)).Condition("example.com/GPU", status, at(s))
		}
	}
	play(t, map[string]story{"all change at once": on(crowd(fresh(), 0, 20), rules,
		then(1, "held", "Held EvidenceMissing, disk Held EvidenceMissing, gpu Held EvidenceMissing", added,
			change("added disk "+diskPending), change("added gpu "+gpuPending),
			tainted(append(crowded(0, 20), pending, diskPending, gpuPending))),
		then(2, "ready", "Ready EvidenceHolds, disk Ready EvidenceHolds, gpu Ready EvidenceHolds", all("True", 2), removed,
			change("removed disk "+diskPending), change("removed gpu "+gpuPending), tainted(crowded(0, 20))),
		then(3, "not ready", "Held EvidenceMissing, disk Held EvidenceMissing, gpu Held EvidenceMissing", all("False", 3),
			added, change("added disk "+diskPending), change("added gpu "+gpuPending),
			tainted(append(crowded(0, 20), pending, diskPending, gpuPending))),
	)})
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"fmt"
	"testing"

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

// crowd adds so many taints that are nobody's business here.
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
		"a taint that kubelet registered keeps its value, and goes when the node is ready": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Taint(key, "kubelet", noSchedule),
			steps: []step{
				{tells: "seen", at: 1, taints: []string{registered}, states: []string{"cni Held EvidenceMissing"},
					changes:     []string{"adopted cni " + pending},
					annotations: map[string]string{recordKey: claimed(1)}},
				{tells: "later", at: 2, restart: true, taints: []string{registered}, states: []string{"cni Held EvidenceMissing"},
					quiet: true},
				{tells: "ready", at: 9, node: ready(9), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"its value changes when the rule's is edited": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Taint(key, "kubelet", noSchedule),
			steps: []step{
				{tells: "seen", at: 1, taints: []string{registered}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"adopted cni " + pending}},
				{tells: "edited", at: 5, rules: []*build.RuleWrapper{rule().Taint(key, "later", noSchedule)},
					taints: []string{key + "=later:NoSchedule"},
					states: []string{"cni Held EvidenceMissing"}},
			},
		},
		"it goes with the rule": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Taint(key, "kubelet", noSchedule),
			steps: []step{
				{tells: "seen", at: 1, taints: []string{registered}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"adopted cni " + pending}},
				{tells: "deleted", at: 5, rules: []*build.RuleWrapper{rule().Deleted(at(5))}, states: []string{"cni"},
					changes:     []string{"removed cni " + pending},
					annotations: map[string]string{}},
			},
		},
		"it goes when the node is relabelled": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Taint(key, "kubelet", noSchedule),
			steps: []step{
				{tells: "seen", at: 1, taints: []string{registered}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"adopted cni " + pending}},
				{tells: "relabelled", at: 5, node: func(n *build.NodeWrapper) { n.Unlabel("pool") }, states: []string{"cni"},
					changes:     []string{"removed cni " + pending},
					annotations: map[string]string{}},
			},
		},
		"one on a node that is ready goes at once": {
			rules: []*build.RuleWrapper{rule()}, node: old().Condition(cni, "True", at(-900)).Taint(key, "", noSchedule),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Ready EvidenceHolds"},
				changes: []string{"removed cni " + pending}}},
		},
		"one of the same key with another effect is foreign": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Taint(key, "pending", noExecute),
			steps: []step{
				{tells: "seen", at: 1, taints: []string{key + "=pending:NoExecute", pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending}},
				{tells: "ready", at: 9, node: ready(9), taints: []string{key + "=pending:NoExecute"},
					states: []string{"cni Ready EvidenceHolds"}, changes: []string{"removed cni " + pending}},
			},
		},
		"one of another key with the same value and effect is foreign": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Taint(diskKey, "pending", noSchedule).Condition(cni, "True",
				at(0)),
			steps: []step{{tells: "seen", at: 1, taints: []string{diskPending}, states: []string{"cni Ready EvidenceHolds"}}},
		},
		"twenty foreign taints stay, in their order": {
			rules: []*build.RuleWrapper{rule()}, node: crowd(crowd(fresh(), 0, 10).Taint(key, "kubelet", noSchedule), 10, 20),
			steps: []step{
				{tells: "seen", at: 1, taints: append(append(crowded(0, 10), registered), crowded(10, 20)...),
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"adopted cni " + pending}},
				{tells: "ready", at: 9, node: ready(9), taints: crowded(0, 20), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
				{tells: "unready", at: 19, node: unready(19), taints: append(crowded(0, 20), pending),
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending}},
				{tells: "deleted", at: 29, rules: []*build.RuleWrapper{rule().Deleted(at(29))}, taints: crowded(0, 20),
					states: []string{"cni"}, changes: []string{"removed cni " + pending}},
			},
		},
		"a node without taints or annotations": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}, annotations: map[string]string{recordKey: claimed(1)}},
				{tells: "deleted", at: 9, rules: []*build.RuleWrapper{rule().Deleted(at(9))}, states: []string{"cni"},
					changes: []string{"removed cni " + pending}, annotations: map[string]string{}},
			},
		},
		"a taint of the rule on a node that does not match is foreign": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Unlabel("pool").Taint(key, "pending", noSchedule),
			steps: []step{{tells: "seen", at: 1, taints: []string{pending}, quiet: true}},
		},
		"a claim whose taint somebody has taken off is made good": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "taken off", at: 2, node: func(n *build.NodeWrapper) { n.Untaint(key) }, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending},
					annotations: map[string]string{recordKey: claimed(1)}},
			},
		},
		"a claim whose record somebody has taken off is adopted": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "taken off", at: 2, node: func(n *build.NodeWrapper) { n.Unannotate(recordKey) }, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"adopted cni " + pending},
					annotations: map[string]string{recordKey: claimed(2)}},
			},
		},
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
	held := step{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
		changes: []string{"added cni " + pending}}
	edited := func(taintKey, value string, effect corev1.TaintEffect) []*build.RuleWrapper {
		return []*build.RuleWrapper{rule().Generation(2).Taint(taintKey, value, effect)}
	}
	record := func(taint string, since int) map[string]string {
		return map[string]string{recordKey: fmt.Sprintf(`{"rule":"cni","taint":%q,"since":%q}`, taint, stamp(since))}
	}
	play(t, map[string]story{
		"another key: the old one is gone and the new one there, in one patch": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{held, {tells: "edited", at: 5, rules: edited("example.com/new", "pending", noSchedule),
				taints: []string{"example.com/new=pending:NoSchedule"},
				states: []string{"cni Held EvidenceMissing"}, changes: []string{"removed cni " + pending,
					"added cni example.com/new=pending:NoSchedule"},
				annotations: record("example.com/new=pending:NoSchedule", 1)}},
		},
		"another effect": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{held, {tells: "edited", at: 5, rules: edited(key, "pending", noExecute),
				taints: []string{key + "=pending:NoExecute"},
				states: []string{"cni Held EvidenceMissing"}, changes: []string{"removed cni " + pending, "added cni " + key +
					"=pending:NoExecute"},
				annotations: record(key+"=pending:NoExecute", 1)}},
		},
		"another value": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{held, {tells: "edited", at: 5, rules: edited(key, "edited", noSchedule),
				taints: []string{key + "=edited:NoSchedule"},
				states: []string{"cni Held EvidenceMissing"}, annotations: record(key+"=edited:NoSchedule", 1)}},
		},
		"another key, which somebody else has put there already": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{held, {tells: "edited", at: 5, node: func(n *build.NodeWrapper) {
				n.Taint("example.com/new", "theirs",
					noSchedule)
			},
				rules: edited("example.com/new", "pending", noSchedule), taints: []string{"example.com/new=theirs:NoSchedule"},
				states: []string{"cni Held EvidenceMissing"}, changes: []string{"removed cni " + pending}}},
		},
		"another key, while the operator was down, and the node is ready meanwhile": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{held, {tells: "edited", at: 5, restart: true, node: ready(4),
				rules:  edited("example.com/new", "pending", noSchedule),
				states: []string{"cni Ready EvidenceHolds"}, changes: []string{"removed cni " + pending},
				annotations: map[string]string{recordKey: released(5)}}},
		},
		"another selector, which does not match": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{held, {tells: "edited", at: 5, rules: []*build.RuleWrapper{rule().Generation(2).Selector("zone", "b")},
				states: []string{"cni"}, changes: []string{"removed cni " + pending}, annotations: map[string]string{}}},
		},
		"other conditions": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Condition(disk, "True", at(0)),
			steps: []step{held, {tells: "edited", at: 5, rules: []*build.RuleWrapper{ruleOf("cni", disk, key)},
				states: []string{"cni Ready EvidenceHolds"}, changes: []string{"removed cni " + pending}}},
		},
		"a suspended rule does not put its edited taint on": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{held,
				{tells: "edited", at: 5, rules: []*build.RuleWrapper{rule().Generation(2).Taint("example.com/new", "",
					noSchedule).Suspend(true)}, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, quiet: true},
				{tells: "in force", at: 6, rules: edited("example.com/new", "", noSchedule),
					taints: []string{"example.com/new=:NoSchedule"},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"removed cni " + pending,
						"added cni example.com/new=:NoSchedule"}},
			},
		},
	})
}

func TestLabels(t *testing.T) {
	out := func(n *build.NodeWrapper) { n.Unlabel("pool") }
	in := func(n *build.NodeWrapper) { n.Label("pool", "workers") }
	play(t, map[string]story{
		"relabelled out and in while not ready": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "out", at: 2, node: out, states: []string{"cni"}, changes: []string{"removed cni " + pending},
					annotations: map[string]string{}},
				{tells: "still out", at: 3, quiet: true},
				{tells: "in", at: 4, node: in, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}, annotations: map[string]string{recordKey: claimed(4)}},
			},
		},
		"relabelled out while the operator was down": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "out", at: 2, restart: true, node: out, states: []string{"cni"},
					changes: []string{"removed cni " + pending}, annotations: map[string]string{}},
			},
		},
		"relabelled from one rule to another, in one patch": {
			rules: []*build.RuleWrapper{rule(), ruleOf("disk", disk, diskKey).Selector("pool", "storage")}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "relabelled", at: 2, node: func(n *build.NodeWrapper) { n.Label("pool", "storage") },
					taints: []string{diskPending},
					states: []string{"cni", "disk Held EvidenceMissing"}, changes: []string{"removed cni " + pending, "added disk " +
						diskPending}},
			},
		},
		"relabelled from one rule to another with the same taint: it does not go": {
			rules: []*build.RuleWrapper{rule(), ruleOf("disk", disk, key).Selector("pool", "storage")}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "relabelled", at: 2, node: func(n *build.NodeWrapper) { n.Label("pool", "storage") },
					taints: []string{pending}, states: []string{"cni", "disk Held EvidenceMissing"}},
			},
		},
		"a node that never matched is not looked at": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Unlabel("pool"),
			steps: []step{{tells: "seen", at: 1, quiet: true}},
		},
	})
}

func TestModes(t *testing.T) {
	held := step{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
		changes: []string{"added cni " + pending}}
	frozen := func() *build.RuleWrapper {
		r := rule().Generation(2)
		r.Spec.Requirements = []v1alpha1.Requirement{{Name: "future"}}
		return r
	}
	garbage := func(n *build.NodeWrapper) { n.Annotation(recordKey, `{"taint":"`+pending+`","future":true} `) }
	play(t, map[string]story{
		"deleted: claim and record go; what is not yet adopted stays": {
			rules: []*build.RuleWrapper{rule().Deleted(at(0))}, node: fresh().Taint(key, "kubelet", noSchedule),
			steps: []step{{tells: "seen", at: 1, taints: []string{key + "=kubelet:NoSchedule"}, states: []string{"cni"},
				quiet: true}},
		},
		"deleted: a ready node's record goes": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Condition(cni, "True", at(0)),
			steps: []step{
				{tells: "ready", at: 1, states: []string{"cni Ready EvidenceHolds"}},
				{tells: "deleted", at: 2, rules: []*build.RuleWrapper{rule().Deleted(at(2))}, states: []string{"cni"},
					annotations: map[string]string{}},
			},
		},
		"deleted goes before invalid": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{held, {tells: "both", at: 2, rules: []*build.RuleWrapper{frozen().Deleted(at(2))},
				states: []string{"cni"}, changes: []string{"removed cni " + pending}, annotations: map[string]string{}}},
		},
		"invalid: what is there stays, byte for byte": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				held,
				{tells: "invalid and ready", at: 2, node: func(n *build.NodeWrapper) { garbage(n); ready(2)(n) },
					rules: []*build.RuleWrapper{frozen()}, taints: []string{pending}, states: []string{"cni Held NotInForce"},
					quiet: true},
				{tells: "relabelled", at: 3, node: func(n *build.NodeWrapper) { n.Unlabel("pool") }, taints: []string{pending},
					states: []string{"cni"}, quiet: true},
				{tells: "an override", at: 4, node: func(n *build.NodeWrapper) {
					n.Annotation(v1alpha1.OverrideAnnotation,
						"Release")
				}, taints: []string{pending}, states: []string{"cni"}, quiet: true},
				{tells: "mended", at: 5, node: func(n *build.NodeWrapper) { n.Unannotate(v1alpha1.OverrideAnnotation) },
					rules: []*build.RuleWrapper{rule().Generation(3)}, states: []string{"cni"},
					changes:     []string{"removed cni " + pending},
					annotations: map[string]string{}},
			},
		},
		"invalid: what is not there stays away": {
			rules: []*build.RuleWrapper{frozen()}, node: fresh(),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Exempt NotInForce"}, quiet: true}},
		},
		"invalid: a taint that somebody has taken off is not put back": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{held, {tells: "taken off", at: 2, node: func(n *build.NodeWrapper) { n.Untaint(key) },
				rules: []*build.RuleWrapper{frozen()}, states: []string{"cni Held NotInForce"}, quiet: true}},
		},
		"invalid: markers and garbage stay": {
			rules: []*build.RuleWrapper{frozen()}, node: fresh().Annotation(recordKey, "{").Annotation(markerKey,
				"x").Annotation(oldMarker, "y"),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Exempt NotInForce"}, quiet: true}},
		},
		"invalid: its claim stands in a shared taint": {
			rules: []*build.RuleWrapper{rule(), ruleOf("disk", disk, key)}, node: fresh(),
			steps: []step{
				{tells: "both hold", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing",
					"disk Held EvidenceMissing"}, changes: []string{"added cni " + pending, "added disk " + pending}},
				{tells: "one invalid, the other ready", at: 2, rules: []*build.RuleWrapper{frozen(), ruleOf("disk", disk, key)},
					node:   func(n *build.NodeWrapper) { n.Condition(disk, "True", at(2)).Condition(cni, "True", at(2)) },
					taints: []string{pending}, states: []string{"cni Held NotInForce", "disk Ready EvidenceHolds"}},
			},
		},
		"invalid: it does not stand in the way of one that shares its taint": {
			rules: []*build.RuleWrapper{rule(), ruleOf("disk", disk, key)}, node: fresh(),
			steps: []step{
				{tells: "both hold", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing",
					"disk Held EvidenceMissing"}, changes: []string{"added cni " + pending, "added disk " + pending}},
				{tells: "one invalid, and somebody takes the taint off", at: 2, rules: []*build.RuleWrapper{frozen(),
					ruleOf("disk", disk, key)}, node: func(n *build.NodeWrapper) { n.Untaint(key) },
					taints: []string{pending}, states: []string{"cni Held NotInForce", "disk Held EvidenceMissing"},
					changes: []string{"added disk " + pending}},
			},
		},
		"dry-run and back: claims go, nothing is added, then they come back": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				held,
				{tells: "dry-run", at: 2, rules: []*build.RuleWrapper{rule().Generation(2).DryRun(true)},
					states: []string{"cni Exempt DryRun"}, changes: []string{"removed cni " + pending},
					annotations: map[string]string{}},
				{tells: "ready", at: 3, node: ready(3), states: []string{"cni Ready EvidenceHolds"}, quiet: true},
				{tells: "not ready", at: 4, node: unready(4), states: []string{"cni Exempt DryRun"}, quiet: true},
				{tells: "back", at: 5, rules: []*build.RuleWrapper{rule().Generation(3)}, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending}},
			},
		},
		"dry-run keeps what the node has been through": {
			rules: []*build.RuleWrapper{rule().BootstrapOnly().RearmOnReboot()},
			node:  fresh().BootID("b1").Condition(cni, "True", at(0)),
			steps: []step{
				{tells: "completed", at: 1, states: []string{"cni Ready EvidenceHolds"}, changes: []string{"completed cni"}},
				{tells: "dry-run", at: 2, rules: []*build.RuleWrapper{rule().BootstrapOnly().RearmOnReboot().DryRun(true)},
					states: []string{"cni Ready BootstrapCompleted"}, quiet: true},
			},
		},
		"dry-run does not manage what somebody else put there": {
			rules: []*build.RuleWrapper{rule().DryRun(true)}, node: fresh().Taint(key, "kubelet", noSchedule).Condition(cni,
				"True", at(0)),
			steps: []step{{tells: "seen", at: 1, taints: []string{key + "=kubelet:NoSchedule"},
				states: []string{"cni Ready EvidenceHolds"}, quiet: true}},
		},
		"dry-run, set on a node with a foreign taint, and deleted: the taint stays": {
			rules: []*build.RuleWrapper{rule().DryRun(true).Deleted(at(0))}, node: fresh().Taint(key, "kubelet", noSchedule),
			steps: []step{{tells: "seen", at: 1, taints: []string{key + "=kubelet:NoSchedule"}, states: []string{"cni"},
				quiet: true}},
		},
		"suspended: adds nothing, and takes off when ready": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				held,
				{tells: "suspended", at: 2, rules: []*build.RuleWrapper{rule().Generation(2).Suspend(true)},
					taints: []string{pending}, states: []string{"cni Held EvidenceMissing"}, quiet: true},
				{tells: "ready", at: 3, node: ready(3), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}, annotations: map[string]string{recordKey: released(3)}},
				{tells: "not ready", at: 4, node: unready(4), states: []string{"cni Exempt Suspended"}, quiet: true},
				{tells: "resumed", at: 5, rules: []*build.RuleWrapper{rule().Generation(3)}, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending}},
			},
		},
		"suspended: keeps its windows": {
			rules: []*build.RuleWrapper{rule().ReadySeconds(10)}, node: fresh(),
			steps: []step{
				held,
				{tells: "ready", at: 3, node: ready(3), rules: []*build.RuleWrapper{rule().ReadySeconds(10).Suspend(true)},
					taints: []string{pending}, states: []string{"cni Held ReadyWindow"}, quiet: true, recheck: 13},
				{tells: "at its end", at: 13, states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"suspended: a taint that somebody has taken off is not put back": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				held,
				{tells: "taken off", at: 2, rules: []*build.RuleWrapper{rule().Generation(2).Suspend(true)},
					node: func(n *build.NodeWrapper) { n.Untaint(key) }, states: []string{"cni Exempt Suspended"},
					annotations: map[string]string{}},
			},
		},
		"suspended: leaves a taint that somebody else put there": {
			rules: []*build.RuleWrapper{rule().Suspend(true)}, node: fresh().Taint(key, "kubelet", noSchedule),
			steps: []step{
				{tells: "seen", at: 1, taints: []string{key + "=kubelet:NoSchedule"}, states: []string{"cni Exempt Suspended"},
					quiet: true},
				{tells: "ready", at: 2, node: ready(2), taints: []string{key + "=kubelet:NoSchedule"},
					states: []string{"cni Ready EvidenceHolds"}, quiet: true},
			},
		},
		"suspended: a claim goes when the node is relabelled": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{held, {tells: "relabelled", at: 2, rules: []*build.RuleWrapper{rule().Suspend(true)},
				node: func(n *build.NodeWrapper) { n.Unlabel("pool") }, states: []string{"cni"},
				changes: []string{"removed cni " + pending}, annotations: map[string]string{}}},
		},
		"suspended: completes what it holds": {
			rules: []*build.RuleWrapper{rule().BootstrapOnly()}, node: fresh(),
			steps: []step{held, {tells: "ready", at: 2, rules: []*build.RuleWrapper{rule().BootstrapOnly().Suspend(true)},
				node: ready(2), states: []string{"cni Ready EvidenceHolds"},
				changes: []string{"removed cni " + pending, "completed cni"}}},
		},
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
		"nothing on one that bears the taint already": {rules: []*build.RuleWrapper{dry()},
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
	both := step{tells: "both hold", at: 2, taints: []string{pending}, states: []string{"cni Held EvidenceMissing",
		"disk Held EvidenceMissing"}}
	play(t, map[string]story{
		"it stands while any of them claims it": {
			rules: []*build.RuleWrapper{rule(), second("pending")}, node: fresh(),
			steps: []step{
				{tells: "both", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing",
					"disk Held EvidenceMissing"}, changes: []string{"added cni " + pending, "added disk " + pending}},
				{tells: "one ready", at: 2, node: ready(2), taints: []string{pending},
					states: []string{"cni Ready EvidenceHolds", "disk Held EvidenceMissing"}},
				{tells: "the other ready", at: 3, node: diskReady(3), states: []string{"cni Ready EvidenceHolds",
					"disk Ready EvidenceHolds"}, changes: []string{"removed disk " + pending}},
			},
		},
		"both ready at once": {
			rules: []*build.RuleWrapper{rule(), second("pending")}, node: fresh(),
			steps: []step{
				{tells: "both", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing",
					"disk Held EvidenceMissing"}, changes: []string{"added cni " + pending, "added disk " + pending}},
				{tells: "ready", at: 2, node: func(n *build.NodeWrapper) { ready(2)(n); diskReady(2)(n) },
					states:  []string{"cni Ready EvidenceHolds", "disk Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending, "removed disk " + pending}},
			},
		},
		"the oldest claim gives the value, and hands it over when it goes": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "the first", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				func() step { s := both; s.rules = []*build.RuleWrapper{rule(), second("b")}; return s }(),
				{tells: "the first is ready", at: 3, node: ready(3), taints: []string{b},
					states: []string{"cni Ready EvidenceHolds", "disk Held EvidenceMissing"}},
				{tells: "the first is not ready", at: 4, node: unready(4), taints: []string{b},
					states: []string{"cni Held EvidenceMissing", "disk Held EvidenceMissing"}},
				{tells: "the second is deleted", at: 5, rules: []*build.RuleWrapper{rule(), second("b").Deleted(at(5))},
					taints: []string{pending}, states: []string{"cni Held EvidenceMissing", "disk"}},
			},
		},
		"claims of the same second: the older rule's is the oldest": {
			rules: []*build.RuleWrapper{second("b").Created(at(-90000)), rule()}, node: fresh(),
			steps: []step{
				{tells: "both", at: 1, taints: []string{b}, states: []string{"disk Held EvidenceMissing",
					"cni Held EvidenceMissing"}, changes: []string{"added disk " + b, "added cni " + pending}},
				{tells: "the other edited", at: 2, rules: []*build.RuleWrapper{second("b").Created(at(-90000)),
					rule().Taint(key, "c", noSchedule)}, taints: []string{b}, states: []string{"disk Held EvidenceMissing",
					"cni Held EvidenceMissing"}},
				{tells: "the oldest edited", at: 3, rules: []*build.RuleWrapper{second("pending").Created(at(-90000)),
					rule().Taint(key, "c", noSchedule)}, taints: []string{pending}, states: []string{"disk Held EvidenceMissing",
					"cni Held EvidenceMissing"}},
				{tells: "the oldest ready", at: 4, node: diskReady(4), taints: []string{c},
					states: []string{"disk Ready EvidenceHolds", "cni Held EvidenceMissing"}},
			},
		},
		"the oldest claim decides, not the oldest rule": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "the younger rule", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "the older rule", at: 2, rules: []*build.RuleWrapper{second("b").Created(at(-90000)), rule()},
					taints: []string{pending}, states: []string{"disk Held EvidenceMissing", "cni Held EvidenceMissing"}},
				{tells: "the older rule edited", at: 3, rules: []*build.RuleWrapper{second("x").Created(at(-90000)), rule()},
					taints: []string{pending}, states: []string{"disk Held EvidenceMissing", "cni Held EvidenceMissing"}},
				{tells: "the younger rule edited", at: 4, rules: []*build.RuleWrapper{second("x").Created(at(-90000)),
					rule().Taint(key, "c", noSchedule)}, taints: []string{c}, states: []string{"disk Held EvidenceMissing",
					"cni Held EvidenceMissing"}},
			},
		},
		"the oldest moves on to another key: the taint stays, with the other's value": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "the first", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				func() step { s := both; s.rules = []*build.RuleWrapper{rule(), second("b")}; return s }(),
				{tells: "moves on", at: 3, rules: []*build.RuleWrapper{rule().Taint("example.com/new", "", noSchedule),
					second("b")}, taints: []string{b, "example.com/new=:NoSchedule"},
					states:  []string{"cni Held EvidenceMissing", "disk Held EvidenceMissing"},
					changes: []string{"added cni example.com/new=:NoSchedule"}},
			},
		},
		"the oldest is a rule that is gone: the value is handed over": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "the first", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				func() step { s := both; s.rules = []*build.RuleWrapper{rule(), second("b")}; return s }(),
				{tells: "gone", at: 3, restart: true, rules: []*build.RuleWrapper{second("b")}, gone: []string{"u-cni"},
					taints: []string{b}, states: []string{"disk Held EvidenceMissing"}},
			},
		},
		"three rules, one after the other": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "the first", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				func() step { s := both; s.rules = []*build.RuleWrapper{rule(), second("b")}; return s }(),
				{tells: "the third", at: 3, rules: []*build.RuleWrapper{rule(), second("b"), third("c")}, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing", "disk Held EvidenceMissing", "gpu Held EvidenceMissing"}},
				{tells: "the second is ready", at: 4, node: diskReady(4), taints: []string{pending},
					states: []string{"cni Held EvidenceMissing", "disk Ready EvidenceHolds", "gpu Held EvidenceMissing"}},
				{tells: "the first is ready", at: 5, node: ready(5), taints: []string{c},
					states: []string{"cni Ready EvidenceHolds", "disk Ready EvidenceHolds", "gpu Held EvidenceMissing"}},
				{tells: "the third goes into dry-run", at: 6, rules: []*build.RuleWrapper{rule(), second("b"),
					third("c").DryRun(true)}, states: []string{"cni Ready EvidenceHolds", "disk Ready EvidenceHolds",
					"gpu Exempt DryRun"}, changes: []string{"removed gpu " + c}},
			},
		},
		"an adopted value stays through it all": {
			rules: []*build.RuleWrapper{rule(), second("b")}, node: fresh().Taint(key, "kubelet", noSchedule),
			steps: []step{
				{tells: "both", at: 1, taints: []string{key + "=kubelet:NoSchedule"},
					states:  []string{"cni Held EvidenceMissing", "disk Held EvidenceMissing"},
					changes: []string{"adopted cni " + pending, "adopted disk " + b}},
				{tells: "one ready", at: 2, node: ready(2), taints: []string{key + "=kubelet:NoSchedule"},
					states: []string{"cni Ready EvidenceHolds", "disk Held EvidenceMissing"}},
			},
		},
		"what another rule holds is no adoption: an existing node stays exempt": {
			rules: []*build.RuleWrapper{rule(), second("b").ExistingNodes("None")}, node: old(),
			steps: []step{
				{tells: "seen", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing",
					"disk Exempt ExistingNode"}, changes: []string{"added cni " + pending}},
				{tells: "again", at: 2, restart: true, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing", "disk Exempt ExistingNode"}, quiet: true},
				{tells: "ready", at: 3, node: ready(3), states: []string{"cni Ready EvidenceHolds", "disk Exempt ExistingNode"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"what another rule holds does not end unreadySeconds": {
			rules: []*build.RuleWrapper{rule(), second("b").UnreadySeconds(30)},
			node: fresh().Annotation("readiness.node.x-k8s.io/rule-u-disk", fmt.Sprintf(`{"rule":"disk","released":%q}`,
				stamp(0))),
			steps: []step{
				{tells: "held by one", at: 1, node: func(n *build.NodeWrapper) { n.Condition(disk, "False", at(1)) },
					taints: []string{pending}, states: []string{"cni Held EvidenceMissing", "disk Ready UnreadyWindow"},
					changes: []string{"added cni " + pending}, recheck: 31},
				{tells: "again", at: 30, taints: []string{pending}, states: []string{"cni Held EvidenceMissing",
					"disk Ready UnreadyWindow"}, quiet: true, recheck: 31},
				{tells: "at its end", at: 31, taints: []string{pending}, states: []string{"cni Held EvidenceMissing",
					"disk Held EvidenceMissing"}},
			},
		},
		"what another rule holds does not bypass the breaker": {
			rules: []*build.RuleWrapper{rule(), second("b").MaxUnavailable("0")}, node: old(),
			steps: []step{
				{tells: "seen", at: 1, refuse: []string{"disk"}, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing", "disk Exempt OverBudget"}, changes: []string{"added cni " + pending}},
				{tells: "again", at: 2, taints: []string{pending}, states: []string{"cni Held EvidenceMissing",
					"disk Exempt OverBudget"}, quiet: true},
			},
		},
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
	play(t, map[string]story{"all change at once": {rules: rules, node: crowd(fresh(), 0, 20), steps: []step{
		{tells: "held", at: 1, taints: append(crowded(0, 20), pending, diskPending, gpuPending),
			states:  []string{"cni Held EvidenceMissing", "disk Held EvidenceMissing", "gpu Held EvidenceMissing"},
			changes: []string{"added cni " + pending, "added disk " + diskPending, "added gpu " + gpuPending}},
		{tells: "ready", at: 2, node: all("True", 2), taints: crowded(0, 20),
			states:  []string{"cni Ready EvidenceHolds", "disk Ready EvidenceHolds", "gpu Ready EvidenceHolds"},
			changes: []string{"removed cni " + pending, "removed disk " + diskPending, "removed gpu " + gpuPending}},
		{tells: "not ready", at: 3, node: all("False", 3), taints: append(crowded(0, 20), pending, diskPending, gpuPending),
			states:  []string{"cni Held EvidenceMissing", "disk Held EvidenceMissing", "gpu Held EvidenceMissing"},
			changes: []string{"added cni " + pending, "added disk " + diskPending, "added gpu " + gpuPending}},
	}}})
}

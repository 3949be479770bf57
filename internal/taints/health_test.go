// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"strings"
	"testing"

	"github.com/nodegate/nodegate/internal/gate"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

// judged is a record with more in it, as its JSON has it.
func judged(record, more string) string { return strings.TrimSuffix(record, "}") + "," + more + "}" }

const (
	isReady    = `"health":"Ready"`
	isNotReady = `"health":"NotReady"`
)

func TestHealthInTheRecord(t *testing.T) {
	healthy := func() *build.RuleWrapper { return rule().Health("rules") }
	play(t, map[string]story{
		"with the taint, in the same patch, and only when it changes": {
			rules: []*build.RuleWrapper{healthy()}, node: fresh(),
			steps: []step{
				{tells: "nobody has reported anything", at: 1, taints: []string{pending},
					states:  []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}, annotations: map[string]string{recordKey: judged(claimed(1),
						isNotReady)}},
				{tells: "False", at: 5, node: unready(5), taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					quiet: true},
				{tells: "True", at: 9, node: ready(9), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}, annotations: map[string]string{recordKey: judged(released(9),
						isReady)}},
				{tells: "a heartbeat", at: 20, node: func(n *build.NodeWrapper) { n.Heartbeat(cni, at(20)) },
					states: []string{"cni Ready EvidenceHolds"}, quiet: true},
				{tells: "after a restart", at: 25, restart: true, states: []string{"cni Ready EvidenceHolds"}, quiet: true},
				{tells: "False again", at: 30, node: unready(30), taints: []string{pending},
					states:  []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}, annotations: map[string]string{recordKey: judged(reclaimed(30, 9),
						isNotReady)}},
			},
		},
		"an existing node that is ready: the verdict is all that is remembered": {
			rules: []*build.RuleWrapper{healthy()}, node: old().Condition(cni, "True", at(-900)),
			steps: []step{
				{tells: "first seen", at: 2, states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: `{"rule":"cni",` + isReady + `}`}},
				{tells: "the rule loses its health", at: 3, rules: []*build.RuleWrapper{rule().Generation(2)},
					states:      []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{}},
			},
		},
		"what lets a node through lets it have traffic": {
			rules: []*build.RuleWrapper{healthy().MaxUnavailable("0")}, node: old().Condition(cni, "True", at(-900)),
			steps: []step{
				{tells: "ready", at: 1, states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: `{"rule":"cni",` + isReady + `}`}},
				{tells: "not ready, and the breaker has no room", at: 2, node: unready(2), refuse: []string{"cni"},
					states: []string{"cni Exempt OverBudget"}, quiet: true},
				{tells: "a person takes it out", at: 3, node: func(n *build.NodeWrapper) {
					n.Annotation(v1alpha1.OverrideAnnotation,
						"Hold")
				}, taints: []string{pending},
					states: []string{"cni Held OverrideHold"}, changes: []string{"added cni " + pending},
					annotations: map[string]string{recordKey: judged(counted(reclaimed(3, 3)), isNotReady),
						v1alpha1.OverrideAnnotation: "Hold"}},
				{tells: "and in again", at: 4, node: func(n *build.NodeWrapper) {
					n.Annotation(v1alpha1.OverrideAnnotation,
						"Release")
				},
					states: []string{"cni Exempt OverrideRelease"}, changes: []string{"removed cni " + pending},
					annotations: map[string]string{recordKey: judged(released(3), isReady), v1alpha1.OverrideAnnotation: "Release"}},
			},
		},
		"a rule that does not count has no verdict": {
			rules: []*build.RuleWrapper{healthy()}, node: old().Condition(cni, "True", at(-900)),
			steps: []step{
				{tells: "in force", at: 1, states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: `{"rule":"cni",` + isReady + `}`}},
				{tells: "suspended", at: 2, rules: []*build.RuleWrapper{healthy().Generation(2).Suspend(true)},
					states: []string{"cni Ready EvidenceHolds"}, annotations: map[string]string{}},
				{tells: "in force again", at: 3, rules: []*build.RuleWrapper{healthy().Generation(3)},
					states:      []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: `{"rule":"cni",` + isReady + `}`}},
				{tells: "in dry-run", at: 4, rules: []*build.RuleWrapper{healthy().Generation(4).DryRun(true)},
					states: []string{"cni Ready EvidenceHolds"}, annotations: map[string]string{}},
			},
		},
		"an invalid rule keeps its verdict, a deleted one loses it": {
			rules: []*build.RuleWrapper{healthy()}, node: old().Condition(cni, "True", at(-900)),
			steps: []step{
				{tells: "in force", at: 1, states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: `{"rule":"cni",` + isReady + `}`}},
				{tells: "invalid", at: 2, node: unready(2),
					rules:  []*build.RuleWrapper{healthy().Generation(2).MaxUnavailable("x")},
					states: []string{"cni Exempt NotInForce"}, quiet: true},
				{tells: "deleted", at: 3, rules: []*build.RuleWrapper{healthy().Generation(2).Deleted(at(3))},
					states: []string{"cni"}, annotations: map[string]string{}},
			},
		},
		"a node that is no longer the rule's loses the verdict": {
			rules: []*build.RuleWrapper{healthy()}, node: old().Condition(cni, "True", at(-900)),
			steps: []step{
				{tells: "in force", at: 1, states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: `{"rule":"cni",` + isReady + `}`}},
				{tells: "relabelled", at: 2, node: func(n *build.NodeWrapper) { n.Label("pool", "others") },
					states: []string{"cni"}, annotations: map[string]string{}},
			},
		},
	})
}

func TestARuleWithoutATaint(t *testing.T) {
	bare := func() *build.RuleWrapper { return inForce(rule().Untainted().Health("rules"), -86400) }
	held := func(since int) string { return `{"rule":"cni","since":"` + stamp(since) + `",` + isNotReady + `}` }
	play(t, map[string]story{
		"holds a node back, and lets it go": {
			rules: []*build.RuleWrapper{bare()}, node: fresh(),
			steps: []step{
				{tells: "nobody has reported anything", at: 1, states: []string{"cni Held EvidenceMissing"},
					annotations: map[string]string{recordKey: held(1)}},
				{tells: "still", at: 5, states: []string{"cni Held EvidenceMissing"}, quiet: true},
				{tells: "True", at: 9, node: ready(9), states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: judged(released(9), isReady)}},
			},
		},
		"its timeout runs from the moment it began to hold the node, restarts or not": {
			rules: []*build.RuleWrapper{bare().Timeout(60, 0, "Release")}, node: old().Condition(cni, "False", at(-5)),
			steps: []step{
				{tells: "not ready", at: 1, states: []string{"cni Held EvidenceMissing"}, recheck: 61},
				{tells: "not yet", at: 60, restart: true, states: []string{"cni Held EvidenceMissing"}, recheck: 61, quiet: true},
				{tells: "released", at: 61, states: []string{"cni Exempt TimedOut"}, changes: []string{"timedOut cni"},
					annotations: map[string]string{recordKey: `{"rule":"cni","released":"` + stamp(1) + `","timedOut":"` + stamp(61) +
						`",` + isReady + `}`}},
			},
		},
		"a person holds a node back with it": {
			rules: []*build.RuleWrapper{bare()}, node: old().Condition(cni, "True",
				at(-900)).Annotation(v1alpha1.OverrideAnnotation, "Hold"),
			steps: []step{{tells: "Hold", at: 1, states: []string{"cni Held OverrideHold"}}},
		},
		"the taint is taken away from the rule, and comes back": {
			rules: []*build.RuleWrapper{rule().Health("rules")}, node: fresh(),
			steps: []step{
				{tells: "held by the taint", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "without", at: 2, rules: []*build.RuleWrapper{bare().Generation(2)},
					states:  []string{"cni Held EvidenceMissing"},
					changes: []string{"removed cni " + pending}, annotations: map[string]string{recordKey: held(1)}},
				{tells: "with it again", at: 3, rules: []*build.RuleWrapper{rule().Health("rules").Generation(3)},
					taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending}},
			},
		},
		"suspended, it goes on holding a node until that is ready, and has no verdict": {
			rules: []*build.RuleWrapper{bare()}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, states: []string{"cni Held EvidenceMissing"}},
				{tells: "suspended", at: 2, rules: []*build.RuleWrapper{bare().Generation(2).Suspend(true)},
					states:      []string{"cni Held EvidenceMissing"},
					annotations: map[string]string{recordKey: `{"rule":"cni","since":"` + stamp(1) + `"}`}},
			},
		},
	})
}

// TestTheBreakerCountsWhatIsHeldWithoutATaint: such a node takes up room, before and after a restart.
func TestTheBreakerCountsWhatIsHeldWithoutATaint(t *testing.T) {
	w := newWorld(t, rule().Untainted().Health("rules").MaxUnavailable("1"))
	after, _, decisions := w.pass(old().Condition(cni, "False", at(-5)).Obj(), at(1))
	if !decisions[0].Limited {
		t.Error("it is held without asking the breaker")
	}
	w.restart()
	if s := gate.StateOf(w.set(at(2)).All()[0], after, at(2)); !s.Counted || !s.Claimed {
		t.Errorf("the breaker does not count it: %+v", s)
	}
}

func TestAForgedVerdictIsNone(t *testing.T) {
	n := old().Annotation(recordKey, `{"health":"Splendid"}`).Obj()
	if r, ok := gate.DecodeRecord(n.Annotations[recordKey], n, at(1)); !ok || r.Health != "" {
		t.Errorf("got %+v", r)
	}
}

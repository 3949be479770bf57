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
		"with the taint, in the same patch, and only when it changes": on(fresh(), rules(healthy()),
			then(1, "nothing is reported", "Held EvidenceMissing", added, recorded(judged(claimed(1), isNotReady))),
			then(5, "False", "Held EvidenceMissing", unready(5)),
			then(9, "True", "Ready EvidenceHolds", ready(9), removed, recorded(judged(released(9), isReady))),
			then(20, "a heartbeat", "Ready EvidenceHolds", func(n *build.NodeWrapper) { n.Heartbeat(cni, at(20)) }),
			then(25, "after a restart", "Ready EvidenceHolds", restarted),
			then(30, "False again", "Held EvidenceMissing", unready(30), added, recorded(judged(reclaimed(30, 9), isNotReady))),
		),
		"an existing node that is ready: the verdict is all that is remembered": on(old().Condition(cni, "True", at(-900)),
			rules(healthy()),
			then(2, "first seen", "Ready EvidenceHolds", recorded(`{"rule":"cni",`+isReady+`}`)),
			then(3, "the rule loses its health", "Ready EvidenceHolds", rules(rule().Generation(2)), clean),
		),
		"what lets a node through lets it have traffic": on(old().Condition(cni, "True", at(-900)),
			rules(healthy().MaxUnavailable("0")),
			then(1, "ready", "Ready EvidenceHolds", recorded(`{"rule":"cni",`+isReady+`}`)),
			then(2, "not ready, and the limit has no room", "Exempt OverBudget", unready(2), refuse{"cni"}),
			then(3, "a person takes it out", "Held OverrideHold",
				func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, "Hold") }, added,
				map[string]string{recordKey: judged(counted(reclaimed(3, 3)), isNotReady), v1alpha1.OverrideAnnotation: "Hold"}),
			then(4, "and in again", "Exempt OverrideRelease",
				func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, "Release") }, removed,
				map[string]string{recordKey: judged(released(3), isReady), v1alpha1.OverrideAnnotation: "Release"}),
		),
		"a rule that does not count has no verdict": on(old().Condition(cni, "True", at(-900)), rules(healthy()),
			then(1, "in force", "Ready EvidenceHolds", recorded(`{"rule":"cni",`+isReady+`}`)),
			then(4, "in dry-run", "Ready EvidenceHolds", rules(healthy().Generation(4).DryRun(true)), clean),
		),
		"an invalid rule keeps its verdict, a deleted one loses it": on(old().Condition(cni, "True", at(-900)),
			rules(healthy()),
			then(1, "in force", "Ready EvidenceHolds", recorded(`{"rule":"cni",`+isReady+`}`)),
			then(2, "invalid", "Exempt NotInForce", rules(healthy().Generation(2).MaxUnavailable("x")), unready(2)),
			then(3, "deleted", "cni", rules(healthy().Generation(2).Deleted(at(3))), clean),
		),
		"a node that is no longer the rule's loses the verdict": on(old().Condition(cni, "True", at(-900)), rules(healthy()),
			then(1, "in force", "Ready EvidenceHolds", recorded(`{"rule":"cni",`+isReady+`}`)),
			then(2, "relabelled", "cni", func(n *build.NodeWrapper) { n.Label("pool", "others") }, clean),
		),
	})
}

func TestARuleWithoutATaint(t *testing.T) {
	bare := func() *build.RuleWrapper { return inForce(rule().Untainted().Health("rules"), -86400) }
	held := func(since int) string { return `{"rule":"cni","since":"` + stamp(since) + `",` + isNotReady + `}` }
	play(t, map[string]story{
		"holds a node back, and lets it go": on(fresh(), rules(bare()),
			then(1, "nothing is reported", "Held EvidenceMissing", untainted, recorded(held(1))),
			then(5, "still", "Held EvidenceMissing", untainted),
			then(9, "True", "Ready EvidenceHolds", ready(9), recorded(judged(released(9), isReady))),
		),
		"its timeout runs from the moment it began to hold the node, restarts or not": on(
			old().Condition(cni, "False", at(-5)), rules(bare().Timeout(60, 0, "Release")),
			then(1, "not ready", "Held EvidenceMissing", untainted, again(61), written),
			then(60, "not yet", "Held EvidenceMissing", restarted, untainted, again(61)),
			then(61, "released", "Exempt TimedOut", change("timedOut cni"),
				recorded(`{"rule":"cni","released":"`+stamp(1)+`","timedOut":"`+stamp(61)+`",`+isReady+`}`)),
		),
		"a person holds a node back with it": on(
			old().Condition(cni, "True", at(-900)).Annotation(v1alpha1.OverrideAnnotation, "Hold"), rules(bare()),
			then(1, "Hold", "Held OverrideHold", untainted, written),
		),
		"the taint is taken away from the rule, and comes back": on(fresh(), rules(rule().Health("rules")),
			then(1, "held by the taint", "Held EvidenceMissing", added),
			then(2, "without", "Held EvidenceMissing", rules(bare().Generation(2)), removed, untainted, recorded(held(1))),
			then(3, "with it again", "Held EvidenceMissing", rules(rule().Health("rules").Generation(3)), added),
		),
	})
}

// TestTheLimitCountsWhatIsHeldWithoutATaint: such a node takes up room, before and after a restart.
func TestTheLimitCountsWhatIsHeldWithoutATaint(t *testing.T) {
	w := newWorld(t, rule().Untainted().Health("rules").MaxUnavailable("1"))
	after, _, decisions := w.pass(old().Condition(cni, "False", at(-5)).Obj(), at(1))
	if !decisions[0].Limited {
		t.Error("it is held without asking the limit")
	}
	w.restart()
	if s := gate.StateOf(w.set(at(2)).All()[0], after, at(2)); !s.Counted || !s.Claimed {
		t.Errorf("the limit does not count it: %+v", s)
	}
}

func TestAForgedVerdictIsNone(t *testing.T) {
	n := old().Annotation(recordKey, `{"health":"Splendid"}`).Obj()
	if r, ok := gate.DecodeRecord(n.Annotations[recordKey], n, at(1)); !ok || r.Health != "" {
		t.Errorf("got %+v", r)
	}
}

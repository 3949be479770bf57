// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"strings"
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

// judged is a record with more in it, as its JSON has it.
func judged(record, more string) string { return strings.TrimSuffix(record, "}") + "," + more + "}" }

const (
	isReady    = `"health":"Ready"`
	isNotReady = `"health":"NotReady"`
)

func TestHealthInTheRecord(t *testing.T) {
	healthy := func() *build.RuleWrapper { return Rule().Health("rules") }
	Play(t, map[string]Story{
		"an existing node that is ready: the verdict is all that is remembered": On(Old().Condition(CNI, "True", At(-900)),
			Rules(healthy()),
			Then(2, "first seen", "Ready EvidenceHolds", Recorded(`{"rule":"cni",`+isReady+`}`)),
			Then(3, "the rule loses its health", "Ready EvidenceHolds", Rules(Rule().Generation(2)), Clean),
		),
		"what lets a node through lets it have traffic": On(Old().Condition(CNI, "True", At(-900)),
			Rules(healthy().MaxUnavailable("0")),
			Then(1, "ready", "Ready EvidenceHolds", Recorded(`{"rule":"cni",`+isReady+`}`)),
			Then(2, "not ready, and the limit has no room", "Exempt OverBudget", Unready(2), Refuse{"cni"}),
			Then(3, "a person takes it out", "Held OverrideHold",
				Edit(func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, "Hold") }), Added,
				Annotated{RecordKey: judged(Found(Forced(Reclaimed(3, 3))), isNotReady),
					v1alpha1.OverrideAnnotation: "Hold"}),
			Then(4, "and in again", "Exempt OverrideRelease",
				Edit(func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, "Release") }), Removed,
				Annotated{RecordKey: judged(Found(Released(3)), isReady), v1alpha1.OverrideAnnotation: "Release"}),
		),
		"a rule that does not count has no verdict": On(Old().Condition(CNI, "True", At(-900)), Rules(healthy()),
			Then(1, "in force", "Ready EvidenceHolds", Recorded(`{"rule":"cni",`+isReady+`}`)),
			Then(4, "in dry-run", "Ready EvidenceHolds", Rules(healthy().Generation(4).DryRun(true)), Clean),
		),
		"an invalid rule keeps its verdict, a deleted one loses it": On(Old().Condition(CNI, "True", At(-900)),
			Rules(healthy()),
			Then(1, "in force", "Ready EvidenceHolds", Recorded(`{"rule":"cni",`+isReady+`}`)),
			Then(2, "invalid", "Exempt NotInForce", Rules(healthy().Generation(2).MaxUnavailable("x")), Unready(2)),
			Then(3, "deleted", "cni", Rules(healthy().Generation(2).Deleted(At(3))), Clean),
		),
		"a terminating node keeps its verdict": On(Fresh(), Rules(healthy()),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(11, "being deleted, and untainted by hand", "Exempt Terminating",
				Edit(func(n *build.NodeWrapper) { n.Terminating(At(10)).Untaint(Key) }),
				Annotated{RecordKey: `{"rule":"cni",` + isNotReady + `}`}),
		),
		"a node that is no longer the rule's loses the verdict": On(Old().Condition(CNI, "True", At(-900)), Rules(healthy()),
			Then(1, "in force", "Ready EvidenceHolds", Recorded(`{"rule":"cni",`+isReady+`}`)),
			Then(2, "relabelled", "cni", Edit(func(n *build.NodeWrapper) { n.Label("pool", "others") }), Clean),
		),
	})
}

func TestARuleWithoutATaint(t *testing.T) {
	bare := func() *build.RuleWrapper { return InForce(Rule().Untainted().Health("rules"), -86400) }
	held := func(since int) string { return `{"rule":"cni","since":"` + Stamp(since) + `",` + isNotReady + `}` }
	Play(t, map[string]Story{
		"holds a node back, and lets it go": On(Fresh(), Rules(bare()),
			Then(1, "nothing is reported", "Held EvidenceMissing", Untainted, Recorded(held(1))),
			Then(5, "still", "Held EvidenceMissing", Untainted),
			Then(9, "True", "Ready EvidenceHolds", Ready(9), Recorded(judged(Released(9), isReady))),
		),
		"its timeout runs from the moment it began to hold the node, restarts or not": On(
			Old().Condition(CNI, "False", At(-5)), Rules(bare().Timeout(60, 0, "Release")),
			Then(1, "not ready", "Held EvidenceMissing", Untainted, Again(61), Written),
			Then(60, "not yet", "Held EvidenceMissing", Restarted, Untainted, Again(61)),
			Then(61, "released", "Exempt TimedOut", Change("timedOut cni"),
				Recorded(`{"rule":"cni","released":"`+Stamp(1)+`","found":true,"timedOut":"`+Stamp(61)+`","passed":true,`+
					isReady+`}`)),
			Then(70, "a person takes it out", "Held OverrideHold", Untainted, Written,
				Edit(func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, "Hold") })),
			Then(80, "and in again: the timeout has still passed", "Exempt TimedOut", Written,
				Edit(func(n *build.NodeWrapper) { n.Unannotate(v1alpha1.OverrideAnnotation) })),
		),
		"the taint is taken away from the rule, and comes back": On(Fresh(), Rules(Rule().Health("rules")),
			Then(1, "held by the taint", "Held EvidenceMissing", Added),
			Then(2, "without", "Held EvidenceMissing", Rules(bare().Generation(2)), Removed, Untainted, Recorded(held(1))),
			Then(3, "with it again", "Held EvidenceMissing", Rules(Rule().Health("rules").Generation(3)), Added),
		),
	})
}

// TestTheLimitCountsWhatIsHeldWithoutATaint: such a node takes up room, before and after a restart.
func TestTheLimitCountsWhatIsHeldWithoutATaint(t *testing.T) {
	w := NewWorld(t, Rule().Untainted().Health("rules").MaxUnavailable("1"))
	after, _, _ := w.Pass(Old().Condition(CNI, "False", At(-5)).Obj(), At(1))
	if !w.Asked {
		t.Error("it is held without asking the limit")
	}
	w.Restart()
	if s := nodeview.StateOf(w.Set(At(2)).All()[0], after, At(2)); !s.Counted || !s.Claimed {
		t.Errorf("the limit does not count it: %+v", s)
	}
	w.Objects = []*build.RuleWrapper{Rule().Health("rules").MaxUnavailable("1").Generation(2)}
	after, _, _ = w.Pass(build.WrapNode(after).Cordoned().Obj(), At(3))
	if s := nodeview.StateOf(w.Set(At(4)).All()[0], after, At(4)); !s.Counted || !s.Claimed {
		t.Errorf("the limit does not count the cordoned node when the rule gets a taint: %+v", s)
	}
}

func TestAForgedVerdictIsNone(t *testing.T) {
	n := Old().Annotation(RecordKey, `{"health":"Splendid"}`).Obj()
	if r, ok := nodeview.DecodeRecord(n.Annotations[RecordKey], n, At(1)); !ok || r.Health != "" {
		t.Errorf("got %+v", r)
	}
}

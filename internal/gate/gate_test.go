// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"fmt"
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

func TestGate(t *testing.T) {
	Play(t, map[string]Story{
		"continuous: held until it holds, and again when it ceases to": On(Fresh(), Rules(Rule()),
			Then(1, "nothing is reported", "Held EvidenceMissing", Added, Recorded(Claimed(1))),
			Then(5, "False", "Held EvidenceMissing", Unready(5)),
			Then(9, "True", "Ready EvidenceHolds", Ready(9), Removed, Recorded(Released(9))),
			Then(20, "a heartbeat", "Ready EvidenceHolds", Edit(func(n *build.NodeWrapper) { n.Heartbeat(CNI, At(20)) })),
			Then(25, "after a restart", "Ready EvidenceHolds", Restarted),
			Then(30, "False again", "Held EvidenceMissing", Unready(30), Added, Recorded(Reclaimed(30, 9))),
			Then(31, "after a restart", "Held EvidenceMissing", Restarted),
			Then(32, "Unknown", "Held EvidenceMissing",
				Edit(func(n *build.NodeWrapper) { n.Condition(CNI, "Unknown", At(32)) })),
			Then(40, "True again", "Ready EvidenceHolds", Ready(40), Removed, Recorded(Released(9))),
			Then(50, "the condition is gone", "Held EvidenceMissing",
				Edit(func(n *build.NodeWrapper) { n.Without(CNI) }), Added),
		),
		"continuous: a new node that is ready when first seen is released without a taint, and counts from then on": On(
			Fresh().Condition(CNI, "True", At(1)), Rules(Rule()),
			Then(2, "first seen", "Ready EvidenceHolds", Recorded(Released(2))),
		),
		"continuous: an existing node that is ready has nothing written to it": On(Old().Condition(CNI, "True", At(-900)),
			Rules(Rule()),
			Then(2, "first seen", "Ready EvidenceHolds"),
		),
		"a clock behind the API server's: times that are written are not from before the node": On(
			Fresh().Condition(CNI, "True", At(-20)), Rules(Rule()),
			Then(-10, "ready", "Ready EvidenceHolds", Recorded(Released(0))),
			Then(-5, "unready", "Held EvidenceMissing", Unready(-5), Added, Recorded(Reclaimed(0, 0))),
			Then(-1, "ready again", "Ready EvidenceHolds", Ready(-1), Removed, Recorded(Released(0))),
		),
	})
}

// handedOver is a node that the rule "cni" has handed over for replacement.
func handedOver() *build.NodeWrapper {
	return Fresh().Taint(Key, "pending", NoSchedule).Annotation("example.com/replace", "true").Annotation(RecordKey,
		fmt.Sprintf(`{"rule":"cni","taint":%q,"since":%q,"timedOut":%q,"mark":"example.com/replace=true","handed":true}`,
			Pending, Stamp(1), Stamp(61)))
}

func TestTerminatingNodesGetNothingAdded(t *testing.T) {
	var terminating Edit = func(n *build.NodeWrapper) { n.Terminating(At(10)) }
	Play(t, map[string]Story{
		"no new claim": On(Fresh().Annotation(RecordKey, Released(1)), Rules(Rule()),
			Then(20, "unready", "Exempt Terminating",
				Edit(func(n *build.NodeWrapper) { n.Condition(CNI, "False", At(15)).Terminating(At(10)) })),
		),
		"no marker, record or boot ID where there is no claim": On(
			Fresh().BootID("b1").Condition(CNI, "True", At(1)).Terminating(At(1)),
			Rules(Rule().BootstrapOnly().RearmOnReboot()),
			Then(2, "seen", "Ready EvidenceHolds"),
		),
		"the taint of an edited rule is not put on it, the old one stays": On(Fresh(), Rules(Rule()),
			Then(1, "claimed", "Held EvidenceMissing", Added),
			Then(11, "edited", "Held EvidenceMissing", Rules(Rule().Generation(2).Taint("example.com/new", "", NoExecute)),
				terminating),
			Then(12, "ready", "Ready EvidenceHolds", Ready(12), Removed),
		),
		"a taint that a user has removed is not added again": On(Fresh(), Rules(Rule()),
			Then(1, "claimed", "Held EvidenceMissing", Added),
			Then(11, "taken off", "Exempt Terminating", Edit(func(n *build.NodeWrapper) { n.Terminating(At(10)).Untaint(Key) }),
				Clean),
		),
		"a taint that another client has added is claimed once": On(
			Fresh().Taint(Key, "pending", NoSchedule).Terminating(At(1)), Rules(Rule()),
			Then(2, "seen", "Held EvidenceMissing", Adopted, Recorded(Foreign(Claimed(2)))),
			Then(3, "again", "Held EvidenceMissing"),
		),
		"an override to hold keeps what is there, and the record says when it was released": On(Fresh(), Rules(Rule()),
			Then(1, "claimed", "Held EvidenceMissing", Added),
			Then(11, "overridden", "Held OverrideHold", Edit(func(n *build.NodeWrapper) {
				n.Terminating(At(10)).Annotation(v1alpha1.OverrideAnnotation, "Hold")
			})),
			Then(12, "ready", "Held OverrideHold", Ready(12)),
			Then(13, "lifted", "Ready EvidenceHolds",
				Edit(func(n *build.NodeWrapper) { n.Unannotate(v1alpha1.OverrideAnnotation) }), Removed,
				Recorded(Released(13))),
		),
		"the annotation that hands it over for replacement stays": On(
			handedOver(), Rules(Rule().Replace(60, 1, "example.com/replace")),
			Then(99, "being deleted", "Held EvidenceMissing", Edit(func(n *build.NodeWrapper) { n.Terminating(At(90)) }),
				Quiet),
		),
		"an override to release leaves no record": On(Fresh(), Rules(Rule()),
			Then(1, "claimed", "Held EvidenceMissing", Added),
			Then(11, "overridden", "Exempt OverrideRelease", Edit(func(n *build.NodeWrapper) {
				n.Terminating(At(10)).Annotation(v1alpha1.OverrideAnnotation, "Release")
			}), Removed, Annotated{v1alpha1.OverrideAnnotation: "Release"}),
		),
		"a taint that a user has put in the place of the old one is another claim": On(Fresh(), Rules(Rule()),
			Then(1, "claimed", "Held EvidenceMissing", Added),
			Then(11, "edited", "Held EvidenceMissing", Rules(Rule().Generation(2).Taint(Key, "pending", NoExecute)),
				Edit(func(n *build.NodeWrapper) { n.Terminating(At(10)).Untaint(Key).Taint(Key, "pending", NoExecute) }),
				Tainted{Key + "=pending:NoExecute"}, Recorded(fmt.Sprintf(
					`{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoExecute","since":%q,"adopted":true}`, Stamp(11)))),
			Then(12, "ready", "Ready EvidenceHolds", Ready(12), Change("removed cni "+Key+"=pending:NoExecute")),
		),
		"an override to hold adds nothing": On(Fresh().Terminating(At(1)).Annotation(v1alpha1.OverrideAnnotation, "Hold"),
			Rules(Rule()),
			Then(2, "seen", "Exempt Terminating"),
		),
	})
}

func TestWindows(t *testing.T) {
	Play(t, map[string]Story{
		"readySeconds, to the second": On(Fresh(), Rules(Rule().ReadySeconds(10)),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(20, "the window begins", "Held ReadyWindow", Ready(20), Again(30)),
			Then(29, "one second before", "Held ReadyWindow", Again(30)),
			Then(30, "at its end", "Ready EvidenceHolds", Removed),
		),
		"a node in service that is ready, but not for long enough, is left alone": On(Old().Condition(CNI, "True", At(0)),
			Rules(Rule().ReadySeconds(10)),
			Then(1, "seen", "Ready ReadyWindow", Again(10)),
		),
		"unreadySeconds, to the second": On(Fresh().Annotation(RecordKey, Released(0)), Rules(Rule().UnreadySeconds(30)),
			Then(5, "the window begins", "Ready UnreadyWindow", Unready(5), Again(35)),
			Then(34, "one second before", "Ready UnreadyWindow", Again(35)),
			Then(35, "at its end", "Held EvidenceMissing", Added),
		),
		"unreadySeconds does not delay a node's first claim": On(Fresh(), Rules(Rule().UnreadySeconds(30)),
			Then(1, "new", "Held EvidenceMissing", Added),
		),
		"unreadySeconds does not delay the first claim on an existing node that never was ready": On(
			Old().Condition(CNI, "False", At(-2*86400)), Rules(Rule().UnreadySeconds(30)),
			Then(1, "seen", "Held EvidenceMissing", Added),
		),
		"nor in the second in which the node ceased to be ready": On(Old().Condition(CNI, "False", At(-5)),
			Rules(InForce(Rule().Created(At(-5)).UnreadySeconds(30), -5)),
			Then(1, "seen", "Held EvidenceMissing", Added),
		),
		"it does where the node was in service since": On(
			Old().Condition(CNI, "False", At(-5)).Annotation(RecordKey, Found(Released(0))),
			Rules(InForce(Rule().Created(At(-5)).UnreadySeconds(30), -5)),
			Then(1, "seen", "Ready UnreadyWindow", Again(25)),
		),
		"it does where the rule was resumed within the window": On(Old().Condition(CNI, "False", At(-6)),
			Rules(InForce(Rule().UnreadySeconds(30), -5)),
			Then(1, "seen", "Ready UnreadyWindow", Again(24)),
		),
		"and where the operator saw the node ready, by a clock that is behind the rule's creation": On(
			Old().Condition(CNI, "True", At(-86400)),
			Rules(InForce(Rule().Created(At(400)).UnreadySeconds(30), 400)),
			Then(1, "seen", "Ready EvidenceHolds"),
			Then(5, "the window begins", "Ready UnreadyWindow", Unready(5), Again(35)),
			Then(35, "at its end", "Held EvidenceMissing", Added),
		),
		"unreadySeconds delays a claim on an existing node that was ready under the rule": On(
			Old().Condition(CNI, "False", At(0)), Rules(Rule().UnreadySeconds(30)),
			Then(1, "seen", "Ready UnreadyWindow", Again(30)),
		),
		"minHoldSeconds, to the second, from the node's creation": On(Fresh().Condition(CNI, "True", At(0)),
			Rules(Rule().MinHoldSeconds(60)),
			Then(1, "ready at once", "Held MinHold", Added, Again(60)),
			Then(59, "one second before", "Held MinHold", Again(60)),
			Then(60, "at its end", "Ready EvidenceHolds", Removed),
		),
		"minHoldSeconds does not hold a node that has been in service": On(Fresh().Annotation(RecordKey, Released(1)),
			Rules(Rule().MinHoldSeconds(600)),
			Then(5, "unready", "Held EvidenceMissing", Unready(5), Added),
			Then(9, "ready", "Ready EvidenceHolds", Ready(9), Removed),
		),
		"in dry-run, the rule's status shows when readySeconds end": On(Fresh(),
			Rules(Rule().DryRun(true).ReadySeconds(10)),
			Then(20, "the window begins", "Ready ReadyWindow", Ready(20), Again(30)),
			Then(30, "at its end", "Ready EvidenceHolds"),
		),
		"the later of readySeconds and minHoldSeconds decides": On(Fresh().Condition(CNI, "True", At(20)),
			Rules(Rule().ReadySeconds(50).MinHoldSeconds(60)),
			Then(21, "seen", "Held ReadyWindow", Added, Again(60)),
			Then(60, "minimum hold over", "Held ReadyWindow", Again(70)),
			Then(70, "window over", "Ready EvidenceHolds", Removed),
		),
	})
}

func TestTimeout(t *testing.T) {
	const keep, release = v1alpha1.TimeoutActionKeep, v1alpha1.TimeoutActionRelease
	held := Then(10, "held", "Held EvidenceMissing", Added)
	from := func(s Step, Recheck int) Step { s.Recheck = Recheck; return s }
	letPass := fmt.Sprintf(`{"rule":"cni","timedOut":"%s","passed":true}`, Stamp(910))
	Play(t, map[string]Story{
		"Release: from the claim, to the second, and no claim again until it was ready once": On(
			Fresh().Condition(CNI, "False", At(5)), Rules(Rule().Timeout(900, 0, release)),
			from(held, 910),
			Then(909, "one second before", "Held EvidenceMissing", Restarted, Again(910)),
			Then(910, "at the deadline", "Exempt TimedOut", TimedOut, Removed, Recorded(letPass)),
			Then(5000, "later", "Exempt TimedOut"),
			Then(5001, "restarted", "Exempt TimedOut", Restarted),
			Then(5002, "False for another reason", "Exempt TimedOut", Unready(5002)),
			Then(6000, "ready", "Ready EvidenceHolds", Ready(6000), Recorded(Released(6000))),
			Then(7000, "not ready", "Held EvidenceMissing", Unready(7000), Added, Again(7900)),
		),
		"Release: at the deadline, the node is ready, but not for readySeconds": On(Fresh().Condition(CNI, "False", At(5)),
			Rules(Rule().Timeout(900, 0, release).ReadySeconds(30)),
			from(held, 910),
			Then(900, "ready", "Held ReadyWindow", Ready(900), Again(910)),
			Then(910, "at the deadline", "Exempt TimedOut", TimedOut, Removed, Again(930)),
		),
		"Release: ready for a shorter time than readySeconds is not ready once": On(Fresh().Annotation(RecordKey, letPass),
			Rules(Rule().Timeout(900, 0, release).ReadySeconds(30)),
			Then(1000, "ready", "Ready TimedOut", Ready(1000), Again(1030)),
			Then(1029, "not ready", "Exempt TimedOut", Unready(1029)),
		),
		"Release: the record of a terminating node still says that its start has ended": On(
			Fresh().Annotation(RecordKey, letPass).Terminating(At(950)), Rules(Rule().Timeout(900, 0, release)),
			Then(1000, "ready", "Ready EvidenceHolds", Ready(1000), Recorded(letPass)),
		),
		"Release: a taint that another client adds afterwards is removed": On(
			Fresh().Annotation(RecordKey, letPass).Condition(CNI, "False", At(5)), Rules(Rule().Timeout(900, 0, release)),
			Then(1000, "let pass", "Exempt TimedOut"),
			Then(1001, "tainted", "Exempt TimedOut", Edit(func(n *build.NodeWrapper) { n.Taint(Key, "pending", NoSchedule) }),
				Removed, Recorded(letPass)),
		),
		"Release with bootstrap-only: final until re-armed": On(Fresh().BootID("b1").Condition(CNI, "False", At(5)),
			Rules(Rule().BootstrapOnly().RearmOnReboot().Timeout(900, 0, release)),
			from(held, 910),
			Then(910, "at the deadline", "Exempt TimedOut", TimedOut, Removed),
			Then(1000, "ready", "Exempt TimedOut", Ready(1000)),
			Then(1001, "not ready", "Exempt TimedOut", Unready(1001)),
			Then(2000, "rebooted", "Held Rearmed",
				Edit(func(n *build.NodeWrapper) { n.BootID("b2").Condition("Ready", "True", At(2000)) }),
				Rearmed, Added, Again(-1)),
		),
		"Release with bootstrap-only: the rule's status shows it when evidence grows stale": On(
			Fresh().Condition(CNI, "False", At(5)),
			Rules(Rule().FreshCondition("Fresh", 100).BootstrapOnly().Timeout(900, 0, release)),
			from(held, 910),
			Then(910, "at the deadline", "Exempt TimedOut", TimedOut, Removed),
			Then(920, "other evidence is there", "Exempt TimedOut",
				Edit(func(n *build.NodeWrapper) { n.Condition("Fresh", "True", At(915)) }), Again(1015)),
		),
		"Keep: says so once, and holds on": On(Fresh().Condition(CNI, "False", At(5)), Rules(Rule().Timeout(900, 0, keep)),
			from(held, 910),
			Then(909, "one second before", "Held EvidenceMissing", Again(910)),
			Then(910, "at the deadline", "Held EvidenceMissing", TimedOut),
			Then(5000, "later", "Held EvidenceMissing", Restarted),
			Then(6000, "ready", "Ready EvidenceHolds", Ready(6000), Removed, Recorded(Released(6000))),
			Then(7000, "held again", "Held EvidenceMissing", Unready(7000), Added, Again(7900)),
			Then(7900, "again at the deadline", "Held EvidenceMissing", TimedOut),
		),
		"Keep, edited to Release after it has ended": On(Fresh().Condition(CNI, "False", At(5)),
			Rules(Rule().Timeout(900, 0, keep)),
			from(held, 910),
			Then(910, "at the deadline", "Held EvidenceMissing", TimedOut),
			Then(1000, "edited", "Exempt TimedOut", Rules(Rule().Generation(2).Timeout(900, 0, release)), Removed),
		),
		"appearSeconds runs while a condition has not appeared": On(Fresh(), Rules(Rule().Timeout(900, 300, release)),
			from(held, 310),
			Then(309, "one second before", "Held EvidenceMissing", Again(310)),
			Then(310, "at the deadline", "Exempt TimedOut", TimedOut, Removed),
		),
		"appearSeconds does not matter once it has appeared": On(Fresh(), Rules(Rule().Timeout(900, 300, release)),
			from(held, 310),
			Then(305, "appeared", "Held EvidenceMissing", Unready(305), Again(910)),
			Then(310, "past appearSeconds", "Held EvidenceMissing", Again(910)),
			Then(910, "at the deadline", "Exempt TimedOut", TimedOut, Removed),
		),
		"appearSeconds alone, and no action, which is Keep": On(Fresh(), Rules(Rule().Timeout(0, 300, "")),
			from(held, 310),
			Then(310, "at the deadline", "Held EvidenceMissing", TimedOut),
		),
		"Keep: if evidence appears after appearSeconds, the timeout ends again": On(Fresh(),
			Rules(Rule().Timeout(900, 300, keep)),
			from(held, 310),
			Then(310, "appearSeconds have passed", "Held EvidenceMissing", TimedOut),
			Then(400, "appeared", "Held EvidenceMissing", Unready(400), Again(910)),
			Then(910, "at the deadline", "Held EvidenceMissing", TimedOut),
			Then(5000, "later", "Held EvidenceMissing"),
		),
		"Keep: if seconds are raised afterwards, the timeout ends again": On(Fresh().Condition(CNI, "False", At(5)),
			Rules(Rule().Timeout(900, 0, keep)),
			from(held, 910),
			Then(910, "at the deadline", "Held EvidenceMissing", TimedOut),
			Then(1000, "raised", "Held EvidenceMissing", Rules(Rule().Generation(2).Timeout(1800, 0, keep)),
				Again(1810)),
			Then(1810, "at the new deadline", "Held EvidenceMissing", TimedOut),
		),
		"from the node's creation, where an admission policy made the claim, which has no clock": On(Fresh().
			Taint(Key, "pending", NoSchedule).Annotation(RecordKey, `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			Rules(Rule().Timeout(900, 0, release)),
			Then(50, "seen", "Held EvidenceMissing", Again(900)),
			Then(899, "one second before", "Held EvidenceMissing", Again(900)),
			Then(900, "at the deadline", "Exempt TimedOut", TimedOut, Removed),
		),
		"from when it is first seen, where an admission policy made the claim on a node that was there already": On(Fresh().
			Taint(Key, "pending", NoSchedule).
			Annotation(RecordKey, `{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule","late":true}`),
			Rules(Rule().Timeout(900, 0, release)),
			Then(5000, "seen", "Held EvidenceMissing",
				Recorded(`{"rule":"cni","taint":"`+Pending+`","since":"2026-01-02T16:23:20Z","counted":true}`), Again(5900)),
			Then(5900, "at the deadline", "Exempt TimedOut", TimedOut, Removed),
		),
	})
}

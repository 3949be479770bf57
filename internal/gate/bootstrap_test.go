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

func TestBootstrapOnly(t *testing.T) {
	once := func() *build.RuleWrapper { return Rule().BootstrapOnly() }
	held := Then(1, "held", "Held EvidenceMissing", Added)
	Play(t, map[string]Story{
		"marker and removal in one patch, and never again after completion": On(Fresh(), Rules(once()),
			held,
			Then(9, "ready", "Ready EvidenceHolds", Ready(9), Removed, Change("completed cni"),
				Annotated{RecordKey: Released(9), MarkerKey: IsMarked}),
			Then(20, "unready", "Ready BootstrapCompleted", Unready(20)),
			Then(21, "restarted", "Ready BootstrapCompleted", Restarted),
			Then(22, "the record is lost", "Ready BootstrapCompleted",
				Edit(func(n *build.NodeWrapper) { n.Unannotate(RecordKey) })),
			Then(23, "a user adds the taint", "Ready BootstrapCompleted",
				Edit(func(n *build.NodeWrapper) { n.Taint(Key, "", NoSchedule) }), Removed),
		),
		"a node that is ready when first seen is marked": On(Old().Condition(CNI, "True", At(-900)), Rules(once()),
			Then(1, "seen", "Ready EvidenceHolds", Change("completed cni"),
				Annotated{RecordKey: Found(Released(1)), MarkerKey: IsMarked}),
		),
		"the marker by UID is honoured, regardless of its value": On(Fresh().Annotation(MarkerKey, "true"), Rules(once()),
			Then(1, "seen", "Ready BootstrapCompleted"),
		),
		"the older marker by name is honoured, and left as it is": On(Fresh().Annotation(OldMarker, IsMarked), Rules(once()),
			Then(1, "seen", "Ready BootstrapCompleted"),
		),
		"a marked node loses the taint that the incumbent left": On(
			Fresh().Taint(Key, "pending", NoSchedule).Annotation(OldMarker, IsMarked), Rules(once()),
			Then(1, "seen", "Ready BootstrapCompleted", Removed, Annotated{OldMarker: IsMarked}),
		),
		"the markers outlive the rule, for one of the same name": On(Fresh().Annotation(MarkerKey, IsMarked).
			Annotation(OldMarker, ""), Rules(once()),
			Then(1, "deleted", "cni", Rules(once().Deleted(At(1))), Annotated{MarkerKey: IsMarked, OldMarker: ""}),
		),
		"both markers of the rule are removed on demand, and no others": On(Fresh().Annotation(MarkerKey, IsMarked).
			Annotation(OldMarker, "").Annotation("readiness.k8s.io/bootstrap-completed-u-other", "{}").
			Annotation("mine", "x"), Rules(once()),
			Then(1, "deleted", "cni", Rules(removing(once().Deleted(At(1)))),
				Annotated{"readiness.k8s.io/bootstrap-completed-u-other": "{}", "mine": "x"}),
		),
		"a completed node that is relabelled out and in stays completed": On(Fresh().Condition(CNI, "True", At(0)),
			Rules(once()),
			Then(1, "completes", "Ready EvidenceHolds", Change("completed cni")),
			Then(2, "out", "cni", Edit(func(n *build.NodeWrapper) { n.Unlabel("pool").Condition(CNI, "False", At(2)) }),
				Annotated{MarkerKey: IsMarked}),
			Then(3, "the marker alone concerns the rule", "cni"),
			Then(4, "in", "Ready BootstrapCompleted", Edit(func(n *build.NodeWrapper) { n.Label("pool", "workers") })),
		),
		"a completed node is not decided again when its evidence grows stale": On(
			Fresh().Condition(CNI, "True", At(0)).Condition("Fresh", "True", At(0)),
			Rules(once().FreshCondition("Fresh", 100)),
			Then(1, "completes", "Ready EvidenceHolds", Change("completed cni"), Again(-1)),
			Then(2, "completed", "Ready BootstrapCompleted"),
		),
		"existingNodes None does not exempt a completed node when the rule becomes continuous": On(
			Old().Annotation(MarkerKey, IsMarked).Condition(CNI, "False", At(0)),
			Rules(once().ExistingNodes(v1alpha1.ExistingNodesNone)),
			Then(1, "completed", "Ready BootstrapCompleted"),
			Then(2, "edited", "Held EvidenceMissing", Rules(Rule().Generation(2).ExistingNodes(v1alpha1.ExistingNodesNone)),
				Added),
		),
		"a completed rule that becomes continuous holds the node again, as one in service": On(
			Fresh().Annotation(MarkerKey, IsMarked).Condition(CNI, "False", At(0)), Rules(once()),
			Then(1, "completed", "Ready BootstrapCompleted"),
			Then(2, "edited, over budget", "Exempt OverBudget", Rules(Rule().MaxUnavailable("0")), Refuse{"cni"}),
			Then(3, "within budget", "Held EvidenceMissing", Refuse{}, Added),
		),
	})
}

func TestCompletionAnnotation(t *testing.T) {
	r := func() *build.RuleWrapper { return Rule().CompletionAnnotation(CompletedAt) }
	unix := func(seconds int) string { return fmt.Sprint(At(seconds).Unix()) }
	Play(t, map[string]Story{
		"is set where the node is ready when first seen": On(Fresh().Condition(CNI, "True", At(0)), Rules(r()),
			Then(1, "seen", "Ready EvidenceHolds", Annotated{RecordKey: Released(1), CompletedAt: unix(1)}),
		),
		"is set when an existing node that was held is ready": On(Old(), Rules(r()),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(9, "ready", "Ready EvidenceHolds", Ready(9), Removed,
				Annotated{RecordKey: Found(Released(1)), CompletedAt: unix(9)}),
		),
		"keeps the time of the first release": On(Fresh().Annotation(CompletedAt, "5"), Rules(r()),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(9, "ready", "Ready EvidenceHolds", Ready(9), Removed,
				Annotated{RecordKey: Released(9), CompletedAt: "5"}),
		),
		"is not set by a timeout": On(Fresh(), Rules(r().Timeout(10, 0, v1alpha1.TimeoutActionRelease)),
			Then(1, "held", "Held EvidenceMissing", Added, Again(11)),
			Then(11, "timed out", "Exempt TimedOut", TimedOut, Removed,
				Recorded(fmt.Sprintf(`{"rule":"cni","timedOut":%q,"passed":true}`, Stamp(11)))),
		),
		"is set when a node is ready that a timeout had released, and that existed before the rule": On(
			Old().Taint(Key, "pending", NoSchedule).Condition(CNI, "False", At(0)),
			Rules(r().Timeout(10, 0, v1alpha1.TimeoutActionRelease)),
			Then(1, "held", "Held EvidenceMissing", Adopted, Again(11)),
			Then(11, "timed out", "Exempt TimedOut", TimedOut, Removed),
			Then(20, "ready", "Ready EvidenceHolds", Ready(20),
				Annotated{RecordKey: Found(Released(20)), CompletedAt: unix(20)}),
		),
		"is not set on a node that was released before": On(
			Fresh().Annotation(RecordKey, Released(1)).Condition(CNI, "True", At(0)), Rules(r()),
			Then(5, "seen", "Ready EvidenceHolds", Recorded(Released(1)), Quiet),
		),
		"is not set on a terminating node": On(Fresh().BootID("b2").Condition(CNI, "True", At(55)).Terminating(At(59)).
			Annotation(RecordKey, fmt.Sprintf(`{"rule":"cni","released":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q}`,
				Stamp(1), Stamp(50), Stamp(51))), Rules(r().RearmOnReboot()),
			Then(60, "ready", "Ready EvidenceHolds",
				Recorded(fmt.Sprintf(`{"rule":"cni","released":%q,"bootID":"b2"}`, Stamp(1)))),
		),
		"is removed by a reboot, and set again": On(Fresh().BootID("b2").Annotation(RecordKey, `{"bootID":"b1"}`).
			Annotation(MarkerKey, IsMarked).Annotation(CompletedAt, "5").Condition("Ready", "True", At(50)),
			Rules(r().BootstrapOnly().RearmOnReboot()),
			Then(51, "rebooted", "Held Rearmed", Rearmed, Added,
				Recorded(fmt.Sprintf(
					`{"rule":"cni","taint":%q,"since":%q,"released":%q,"found":true,"bootID":"b2","notBefore":%q,"rearmedAt":%q}`,
					Pending, Stamp(51), Stamp(51), Stamp(50), Stamp(51)))),
			Then(60, "ready", "Ready EvidenceHolds", Ready(60), Removed, Change("completed cni"),
				Annotated{RecordKey: fmt.Sprintf(`{"rule":"cni","released":%q,"found":true,"bootID":"b2"}`, Stamp(51)),
					MarkerKey: IsMarked, CompletedAt: unix(60)}),
		),
		"is removed by a reboot that no operator saw, and set again when the node is ready": On(
			Fresh().BootID("b1").Condition(CNI, "True", At(0)), Rules(r().RearmOnReboot().MaxUnavailable("0")),
			Then(1, "ready", "Ready EvidenceHolds", Written),
			Then(51, "rebooted", "Exempt OverBudget", Restarted, Refuse{"cni"}, Rearmed,
				Edit(func(n *build.NodeWrapper) { n.BootID("b2").Condition("Ready", "True", At(50)) }),
				Recorded(fmt.Sprintf(`{"rule":"cni","released":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q,"former":%q}`,
					Stamp(1), Stamp(50), Stamp(51), Stamp(1)))),
			Then(60, "reported", "Ready EvidenceHolds", Edit(func(n *build.NodeWrapper) { n.Heartbeat(CNI, At(60)) }),
				Annotated{RecordKey: fmt.Sprintf(`{"rule":"cni","released":%q,"bootID":"b2"}`, Stamp(1)),
					CompletedAt: unix(60)}),
		),
		"is renewed when the node is ready by the time its reboot is found": On(
			Fresh().BootID("b1").Condition(CNI, "True", At(0)), Rules(r().RearmOnReboot()),
			Then(1, "ready", "Ready EvidenceHolds", Written),
			Then(60, "rebooted and reported", "Ready EvidenceHolds", Restarted, Rearmed,
				Edit(func(n *build.NodeWrapper) { n.BootID("b2").Condition("Ready", "True", At(50)).Heartbeat(CNI, At(55)) }),
				Annotated{RecordKey: fmt.Sprintf(`{"rule":"cni","released":%q,"bootID":"b2"}`, Stamp(1)),
					CompletedAt: unix(60)}),
		),
		"stays with the node when the rule goes": On(Fresh().Condition(CNI, "True", At(0)), Rules(r()),
			Then(1, "ready", "Ready EvidenceHolds", Written),
			Then(2, "deleted", "cni", Rules(r().Deleted(At(2))), Annotated{CompletedAt: unix(1)}),
		),
	})
}

func TestRearmOnReboot(t *testing.T) {
	record := func(format string, args ...any) Annotated {
		return map[string]string{RecordKey: `{"rule":"cni",` + fmt.Sprintf(format, args...) + `}`}
	}
	r := func() *build.RuleWrapper { return Rule().RearmOnReboot() }
	// reboot is what the node looks like after it: another boot ID, kubelet's first heartbeat, all else as it was.
	reboot := func(seconds int) Edit {
		return func(n *build.NodeWrapper) { n.BootID("b2").Condition("Ready", "True", At(seconds)) }
	}
	joined := func() *build.NodeWrapper { return Fresh().BootID("b1").Condition(CNI, "True", At(-1)) }
	inService := Then(1, "in service", "Ready EvidenceHolds", record(`"released":%q,"bootID":"b1"`, Stamp(1)))
	Play(t, map[string]Story{
		"an empty boot ID is none": On(joined().BootID(""), Rules(r()),
			Then(1, "not known yet", "Ready EvidenceHolds", record(`"released":%q`, Stamp(1))),
			Then(2, "known", "Ready EvidenceHolds", Edit(func(n *build.NodeWrapper) { n.BootID("b1") }),
				record(`"released":%q,"bootID":"b1"`, Stamp(1))),
			Then(3, "not known any more", "Ready EvidenceHolds", Edit(func(n *build.NodeWrapper) { n.BootID("") })),
		),
		"the condition stayed True all through the reboot: it counts when it is reported again": On(joined(), Rules(r()),
			inService,
			Then(51, "rebooted", "Held Rearmed", reboot(50), Rearmed, Added,
				record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q,"former":%q`, Pending, Stamp(51),
					Stamp(50), Stamp(51), Stamp(1))),
			Then(61, "kubelet's next heartbeat", "Held Rearmed",
				Edit(func(n *build.NodeWrapper) { n.Heartbeat("Ready", At(60)) })),
			Then(62, "restarted", "Held Rearmed", Restarted),
			Then(63, "reported one second too early", "Held Rearmed",
				Edit(func(n *build.NodeWrapper) { n.Heartbeat(CNI, At(49)) })),
			Then(64, "reported", "Ready EvidenceHolds", Edit(func(n *build.NodeWrapper) { n.Heartbeat(CNI, At(50)) }), Removed,
				record(`"released":%q,"found":true,"bootID":"b2"`, Stamp(64))),
			Then(70, "no second time", "Ready EvidenceHolds", Edit(func(n *build.NodeWrapper) { n.Heartbeat(CNI, At(70)) })),
		),
		"bootstrap-only, marked in the older form: that marker goes": On(joined().Annotation(OldMarker, IsMarked),
			Rules(r().BootstrapOnly()),
			Then(1, "completed", "Ready BootstrapCompleted", Written),
			Then(51, "rebooted", "Held Rearmed", reboot(50), Rearmed, Added,
				record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q`, Pending, Stamp(51), Stamp(50),
					Stamp(51))),
		),
		"evidence that is newer than the boot when the reboot is first seen: no taint": On(joined(),
			Rules(r().BootstrapOnly()),
			Then(1, "completed", "Ready EvidenceHolds", Change("completed cni")),
			Then(60, "rebooted and reported", "Ready EvidenceHolds",
				Edit(func(n *build.NodeWrapper) { n.BootID("b2").Condition("Ready", "True", At(50)).Heartbeat(CNI, At(55)) }),
				Rearmed),
		),
		"existingNodes None does not exempt a rebooted node": On(Old().BootID("b1").Condition(CNI, "False", At(-900)),
			Rules(r().ExistingNodes(v1alpha1.ExistingNodesNone)),
			Then(1, "exempt", "Exempt ExistingNode", record(`"bootID":"b1"`)),
			Then(51, "rebooted", "Held Rearmed", reboot(50), Rearmed, Added),
		),
		"after a reboot that no operator saw, it still does": On(Old().BootID("b1").Condition(CNI, "False", At(-900)),
			Rules(r().ExistingNodes(v1alpha1.ExistingNodesNone)),
			Then(1, "exempt", "Exempt ExistingNode", record(`"bootID":"b1"`)),
			Then(51, "rebooted", "Exempt ExistingNode", Restarted, reboot(50), Rearmed),
			Then(52, "later", "Exempt ExistingNode"),
		),
		"after a reboot that no operator saw, a completed node is in service": On(
			Fresh().BootID("b2").Condition(CNI, "False", At(0)).Condition("Ready", "True", At(50)).
				Annotation(RecordKey, `{"rule":"cni","bootID":"b1"}`).Annotation(MarkerKey, IsMarked),
			Rules(r().BootstrapOnly().MaxUnavailable("0")),
			Then(51, "rebooted", "Exempt OverBudget", Rearmed, Refuse{"cni"},
				record(`"released":%q,"found":true,"bootID":"b2","notBefore":%q,"rearmedAt":%q`, Stamp(51), Stamp(50),
					Stamp(51))),
			Then(52, "later", "Exempt OverBudget"),
		),
		"a held node that reboots is started over: the timeout too": On(Fresh().BootID("b1").Condition(CNI, "False", At(0)),
			Rules(r().Timeout(100, 0, v1alpha1.TimeoutActionRelease)),
			Then(1, "held", "Held EvidenceMissing", Added, Again(101)),
			Then(51, "rebooted", "Held Rearmed", reboot(50), Rearmed, Again(151)),
			Then(150, "one second before", "Held Rearmed", Again(151)),
			Then(151, "at the deadline", "Exempt TimedOut", TimedOut, Removed),
		),
		"what was handed over for replacement stays that": On(Fresh().BootID("b2").Condition(CNI, "False", At(0)).
			Condition("Ready", "True", At(50)).Taint(Key, "pending", NoSchedule).Annotation(RecordKey, fmt.Sprintf(
			`{"rule":"cni","taint":%q,"since":%q,"timedOut":%q,"bootID":"b1","handed":true}`, Pending, Stamp(1), Stamp(101))),
			Rules(r().Replace(100, 1, "example.com/replace")),
			Then(151, "rebooted", "Held Rearmed", Rearmed, Again(251),
				record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q,"former":%q,"handed":true`, Pending,
					Stamp(151), Stamp(50), Stamp(151), Stamp(101))),
		),
		"a rule that does not re-arm does not look": On(joined(), Rules(Rule()),
			Then(1, "in service", "Ready EvidenceHolds", record(`"released":%q`, Stamp(1))),
			Then(51, "rebooted", "Ready EvidenceHolds", reboot(50)),
		),
		"rearmOn edited away while the node is held: evidence counts at once": On(joined(), Rules(r()),
			inService,
			Then(51, "rebooted", "Held Rearmed", reboot(50), Rearmed, Added),
			Then(60, "edited", "Ready EvidenceHolds", Rules(Rule().Generation(2)), Removed,
				record(`"released":%q,"found":true`, Stamp(60))),
		),
		"rearmOn edited away while the node is held, and not ready for another reason": On(joined(), Rules(r()),
			inService,
			Then(51, "rebooted", "Held Rearmed", reboot(50), Rearmed, Added),
			Then(60, "edited", "Held EvidenceMissing", Rules(Rule().Generation(2)), Unready(60),
				record(`"taint":%q,"since":%q,"counted":true`, Pending, Stamp(51))),
		),
		"a node that never reported Ready: evidence from before now does not count": On(joined(), Rules(r()),
			inService,
			Then(51, "rebooted", "Held Rearmed", Edit(func(n *build.NodeWrapper) { n.BootID("b2") }), Rearmed, Added,
				record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q,"former":%q`, Pending, Stamp(51),
					Stamp(51), Stamp(51), Stamp(1))),
		),
		"a clock that was years ahead at the boot does not shut the gate for years": On(joined(), Rules(r()),
			inService,
			Then(51, "rebooted", "Held Rearmed", reboot(1<<29), Rearmed, Added),
			Then(60, "reported, by a clock set right", "Ready EvidenceHolds",
				Edit(func(n *build.NodeWrapper) { n.Heartbeat(CNI, At(60)) }), Removed),
		),
		"kubelet's clock is behind, to before the node's creation: what it reported before the boot does not count": On(
			joined().Heartbeat(CNI, At(-100)), Rules(r()),
			inService,
			Then(51, "rebooted", "Held Rearmed", reboot(-50), Rearmed, Added),
			Then(53, "later", "Held Rearmed"),
			Then(60, "reported", "Ready EvidenceHolds", Edit(func(n *build.NodeWrapper) { n.Heartbeat(CNI, At(-40)) }), Removed),
		),
	})
}

// removing makes the deletion of a rule remove its markers.
func removing(r *build.RuleWrapper) *build.RuleWrapper {
	r.Annotations = map[string]string{v1alpha1.RemoveMarkersAnnotation: "true"}
	return r
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"fmt"
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

func TestBootstrapOnly(t *testing.T) {
	once := func() *build.RuleWrapper { return rule().BootstrapOnly() }
	held := then(1, "held", "Held EvidenceMissing", added)
	play(t, map[string]story{
		"marker and removal in one patch, and never again after completion": on(fresh(), rules(once()),
			held,
			then(9, "ready", "Ready EvidenceHolds", ready(9), removed, change("completed cni"),
				map[string]string{recordKey: released(9), markerKey: isMarked}),
			then(20, "unready", "Ready BootstrapCompleted", unready(20)),
			then(21, "restarted", "Ready BootstrapCompleted", restarted),
			then(22, "the record is lost", "Ready BootstrapCompleted", func(n *build.NodeWrapper) { n.Unannotate(recordKey) }),
			then(23, "a user adds the taint", "Ready BootstrapCompleted",
				func(n *build.NodeWrapper) { n.Taint(key, "", noSchedule) }, removed),
		),
		"a node that is ready when first seen is marked": on(old().Condition(cni, "True", at(-900)), rules(once()),
			then(1, "seen", "Ready EvidenceHolds", change("completed cni"),
				map[string]string{recordKey: released(1), markerKey: isMarked}),
		),
		"the marker by UID is honoured": on(fresh().Annotation(markerKey, isMarked), rules(once()),
			then(1, "seen", "Ready BootstrapCompleted"),
		),
		"the marker by UID is honoured, regardless of its value": on(fresh().Annotation(markerKey, "true"), rules(once()),
			then(1, "seen", "Ready BootstrapCompleted"),
		),
		"the older marker by name is honoured, and left as it is": on(fresh().Annotation(oldMarker, isMarked), rules(once()),
			then(1, "seen", "Ready BootstrapCompleted"),
		),
		"a marked node loses the taint that the incumbent left": on(
			fresh().Taint(key, "pending", noSchedule).Annotation(oldMarker, isMarked), rules(once()),
			then(1, "seen", "Ready BootstrapCompleted", removed, map[string]string{oldMarker: isMarked}),
		),
		"a marker of another rule is none": on(fresh().Annotation(markerKey, isMarked),
			rules(once(), ruleOf("disk", disk, "readiness.k8s.io/disk").BootstrapOnly()),
			then(1, "seen", "Ready BootstrapCompleted, disk Held EvidenceMissing",
				change("added disk readiness.k8s.io/disk=pending:NoSchedule"), tainted{"readiness.k8s.io/disk=pending:NoSchedule"}),
		),
		"both markers of the rule are removed, and no others": on(fresh().Annotation(markerKey, isMarked).
			Annotation(oldMarker, isMarked).Annotation("readiness.k8s.io/bootstrap-completed-u-other", "{}").
			Annotation("mine", "x"), rules(once()),
			then(1, "deleted", "cni", rules(once().Deleted(at(1))),
				map[string]string{"readiness.k8s.io/bootstrap-completed-u-other": "{}", "mine": "x"}),
		),
		"a completed node that is relabelled out and in stays completed": on(fresh().Condition(cni, "True", at(0)),
			rules(once()),
			then(1, "completes", "Ready EvidenceHolds", change("completed cni")),
			then(2, "out", "cni", func(n *build.NodeWrapper) { n.Unlabel("pool").Condition(cni, "False", at(2)) },
				map[string]string{markerKey: isMarked}),
			then(3, "in", "Ready BootstrapCompleted", func(n *build.NodeWrapper) { n.Label("pool", "workers") }),
		),
		"a completed rule that becomes continuous holds the node again, as one in service": on(
			fresh().Annotation(markerKey, isMarked).Condition(cni, "False", at(0)), rules(once()),
			then(1, "completed", "Ready BootstrapCompleted"),
			then(2, "edited, over budget", "Exempt OverBudget", rules(rule().MaxUnavailable("0")), refuse{"cni"}),
			then(3, "within budget", "Held EvidenceMissing", refuse{}, added),
		),
	})
}

func TestCompletionAnnotation(t *testing.T) {
	r := func() *build.RuleWrapper { return rule().CompletionAnnotation(completedAt) }
	unix := func(seconds int) string { return fmt.Sprint(at(seconds).Unix()) }
	play(t, map[string]story{
		"is set in the patch that takes the taint off": on(fresh(), rules(r().BootstrapOnly()),
			then(1, "held", "Held EvidenceMissing", added, recorded(claimed(1))),
			then(9, "ready", "Ready EvidenceHolds", ready(9), removed, change("completed cni"),
				map[string]string{recordKey: released(9), markerKey: isMarked, completedAt: unix(9)}),
		),
		"is set where the node is ready when first seen": on(fresh().Condition(cni, "True", at(0)), rules(r()),
			then(1, "seen", "Ready EvidenceHolds", map[string]string{recordKey: released(1), completedAt: unix(1)}),
		),
		"is set when an existing node that was held is ready": on(old(), rules(r()),
			then(1, "held", "Held EvidenceMissing", added),
			then(9, "ready", "Ready EvidenceHolds", ready(9), removed,
				map[string]string{recordKey: released(1), completedAt: unix(9)}),
		),
		"keeps the time of the first release": on(fresh().Annotation(completedAt, "5"), rules(r()),
			then(1, "held", "Held EvidenceMissing", added),
			then(9, "ready", "Ready EvidenceHolds", ready(9), removed,
				map[string]string{recordKey: released(9), completedAt: "5"}),
		),
		"is not set by a timeout": on(fresh(), rules(r().Timeout(10, 0, v1alpha1.TimeoutActionRelease)),
			then(1, "held", "Held EvidenceMissing", added, again(11)),
			then(11, "timed out", "Exempt TimedOut", timedOut, removed,
				recorded(fmt.Sprintf(`{"rule":"cni","timedOut":%q}`, stamp(11)))),
		),
		"is not set by an override": on(fresh().Annotation(v1alpha1.OverrideAnnotation, "Release"), rules(r()),
			then(1, "seen", "Exempt OverrideRelease", map[string]string{
				v1alpha1.OverrideAnnotation: "Release", recordKey: `{"rule":"cni","counted":true}`}),
		),
		"is removed by a reboot, and set again": on(fresh().BootID("b2").Annotation(recordKey, `{"bootID":"b1"}`).
			Annotation(markerKey, isMarked).Annotation(completedAt, "5").Condition("Ready", "True", at(50)),
			rules(r().BootstrapOnly().RearmOnReboot()),
			then(51, "rebooted", "Held Rearmed", rearmed, added,
				recorded(fmt.Sprintf(
					`{"rule":"cni","taint":%q,"since":%q,"released":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q}`,
					pending, stamp(51), stamp(51), stamp(50), stamp(51)))),
			then(60, "ready", "Ready EvidenceHolds", ready(60), removed, change("completed cni"),
				map[string]string{recordKey: fmt.Sprintf(`{"rule":"cni","released":%q,"bootID":"b2"}`, stamp(51)),
					markerKey: isMarked, completedAt: unix(60)}),
		),
		"stays with the node when the rule goes": on(fresh().Condition(cni, "True", at(0)), rules(r()),
			then(1, "ready", "Ready EvidenceHolds", written),
			then(2, "deleted", "cni", rules(r().Deleted(at(2))), map[string]string{completedAt: unix(1)}),
		),
	})
}

func TestRearmOnReboot(t *testing.T) {
	record := func(format string, args ...any) map[string]string {
		return map[string]string{recordKey: `{"rule":"cni",` + fmt.Sprintf(format, args...) + `}`}
	}
	r := func() *build.RuleWrapper { return rule().RearmOnReboot() }
	// reboot is what the node looks like after it: another boot ID, kubelet's first heartbeat, all else as it was.
	reboot := func(seconds int) func(n *build.NodeWrapper) {
		return func(n *build.NodeWrapper) { n.BootID("b2").Condition("Ready", "True", at(seconds)) }
	}
	joined := func() *build.NodeWrapper { return fresh().BootID("b1").Condition(cni, "True", at(-1)) }
	inService := then(1, "in service", "Ready EvidenceHolds", record(`"released":%q,"bootID":"b1"`, stamp(1)))
	play(t, map[string]story{
		"the boot ID is recorded, of a node that is held too, and that is no reboot": on(fresh().BootID("b1"), rules(r()),
			then(1, "seen", "Held EvidenceMissing", added, record(`"taint":%q,"since":%q,"bootID":"b1"`, pending, stamp(1))),
		),
		"the boot ID of an existing node is recorded, and does not gate it": on(
			old().BootID("b1").Condition(cni, "True", at(-900)), rules(r()),
			then(1, "seen", "Ready EvidenceHolds", record(`"bootID":"b1"`)),
		),
		"an empty boot ID is none": on(joined().BootID(""), rules(r()),
			then(1, "not known yet", "Ready EvidenceHolds", record(`"released":%q`, stamp(1))),
			then(2, "known", "Ready EvidenceHolds", func(n *build.NodeWrapper) { n.BootID("b1") },
				record(`"released":%q,"bootID":"b1"`, stamp(1))),
			then(3, "not known any more", "Ready EvidenceHolds", func(n *build.NodeWrapper) { n.BootID("") }),
		),
		"the condition stayed True all through the reboot: it counts when it is reported again": on(joined(), rules(r()),
			inService,
			then(51, "rebooted", "Held Rearmed", reboot(50), rearmed, added,
				record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q,"former":%q`, pending, stamp(51),
					stamp(50), stamp(51), stamp(1))),
			then(61, "kubelet's next heartbeat", "Held Rearmed", func(n *build.NodeWrapper) { n.Heartbeat("Ready", at(60)) }),
			then(62, "restarted", "Held Rearmed", restarted),
			then(63, "reported one second too early", "Held Rearmed", func(n *build.NodeWrapper) { n.Heartbeat(cni, at(49)) }),
			then(64, "reported", "Ready EvidenceHolds", func(n *build.NodeWrapper) { n.Heartbeat(cni, at(50)) }, removed,
				record(`"released":%q,"bootID":"b2"`, stamp(64))),
			then(70, "no second time", "Ready EvidenceHolds", func(n *build.NodeWrapper) { n.Heartbeat(cni, at(70)) }),
		),
		"bootstrap-only: the marker goes, and comes back": on(joined(), rules(r().BootstrapOnly()),
			then(1, "completed", "Ready EvidenceHolds", change("completed cni")),
			then(51, "rebooted", "Held Rearmed", reboot(50), rearmed, added,
				record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q,"former":%q`, pending, stamp(51),
					stamp(50), stamp(51), stamp(1))),
			then(64, "reported", "Ready EvidenceHolds", func(n *build.NodeWrapper) { n.Heartbeat(cni, at(64)) }, removed,
				change("completed cni")),
		),
		"bootstrap-only, marked in the older form: that marker goes": on(joined().Annotation(oldMarker, isMarked),
			rules(r().BootstrapOnly()),
			then(1, "completed", "Ready BootstrapCompleted", written),
			then(51, "rebooted", "Held Rearmed", reboot(50), rearmed, added,
				record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q`, pending, stamp(51), stamp(50),
					stamp(51))),
		),
		"evidence that is newer than the boot when the reboot is first seen: no taint": on(joined(),
			rules(r().BootstrapOnly()),
			then(1, "completed", "Ready EvidenceHolds", change("completed cni")),
			then(60, "rebooted and reported", "Ready EvidenceHolds",
				func(n *build.NodeWrapper) { n.BootID("b2").Condition("Ready", "True", at(50)).Heartbeat(cni, at(55)) }, rearmed),
		),
		"no window and no budget delays the claim": on(joined(), rules(r().UnreadySeconds(300).MaxUnavailable("0")),
			inService,
			then(51, "rebooted", "Held Rearmed", reboot(50), refuse{"cni"}, rearmed, added),
		),
		"existingNodes None does not exempt a rebooted node": on(old().BootID("b1").Condition(cni, "False", at(-900)),
			rules(r().ExistingNodes(v1alpha1.ExistingNodesNone)),
			then(1, "exempt", "Exempt ExistingNode", record(`"bootID":"b1"`)),
			then(51, "rebooted", "Held Rearmed", reboot(50), rearmed, added),
		),
		"a held node that reboots is started over: the timeout too": on(fresh().BootID("b1").Condition(cni, "False", at(0)),
			rules(r().Timeout(100, 0, v1alpha1.TimeoutActionRelease)),
			then(1, "held", "Held EvidenceMissing", added, again(101)),
			then(51, "rebooted", "Held Rearmed", reboot(50), rearmed, again(151)),
			then(150, "one second before", "Held Rearmed", again(151)),
			then(151, "at the deadline", "Exempt TimedOut", timedOut, removed),
		),
		"two reboots": on(joined(), rules(r()),
			inService,
			then(51, "the first", "Held Rearmed", reboot(50), rearmed, added),
			then(81, "the second", "Held Rearmed",
				func(n *build.NodeWrapper) { n.BootID("b3").Heartbeat("Ready", at(80)).Heartbeat(cni, at(79)) }, rearmed,
				record(`"taint":%q,"since":%q,"bootID":"b3","notBefore":%q,"rearmedAt":%q,"former":%q`, pending, stamp(81),
					stamp(80), stamp(81), stamp(51))),
		),
		"a rule that does not re-arm does not look": on(joined(), rules(rule()),
			then(1, "in service", "Ready EvidenceHolds", record(`"released":%q`, stamp(1))),
			then(51, "rebooted", "Ready EvidenceHolds", reboot(50)),
		),
		"rearmOn edited away while the node is held: evidence counts at once": on(joined(), rules(r()),
			inService,
			then(51, "rebooted", "Held Rearmed", reboot(50), rearmed, added),
			then(60, "edited", "Ready EvidenceHolds", rules(rule().Generation(2)), removed, record(`"released":%q`, stamp(60))),
		),
		"rearmOn edited away while the node is held, and not ready for another reason": on(joined(), rules(r()),
			inService,
			then(51, "rebooted", "Held Rearmed", reboot(50), rearmed, added),
			then(60, "edited", "Held EvidenceMissing", rules(rule().Generation(2)), unready(60),
				record(`"taint":%q,"since":%q,"counted":true`, pending, stamp(51))),
		),
		"a node that never reported Ready: evidence from before now does not count": on(joined(), rules(r()),
			inService,
			then(51, "rebooted", "Held Rearmed", func(n *build.NodeWrapper) { n.BootID("b2") }, rearmed, added,
				record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q,"former":%q`, pending, stamp(51),
					stamp(51), stamp(51), stamp(1))),
		),
		"a clock that was years ahead at the boot does not shut the gate for years": on(joined(), rules(r()),
			inService,
			then(51, "rebooted", "Held Rearmed", reboot(1<<29), rearmed, added),
			then(60, "reported, by a clock set right", "Ready EvidenceHolds",
				func(n *build.NodeWrapper) { n.Heartbeat(cni, at(60)) }, removed),
		),
		"kubelet's clock is behind, to before the node's creation: what it reported before the boot does not count": on(
			joined().Heartbeat(cni, at(-100)), rules(r()),
			inService,
			then(51, "rebooted", "Held Rearmed", reboot(-50), rearmed, added),
			then(53, "later", "Held Rearmed"),
			then(60, "reported", "Ready EvidenceHolds", func(n *build.NodeWrapper) { n.Heartbeat(cni, at(-40)) }, removed),
		),
		"dry-run reports it and starts nothing over": on(joined(), rules(r()),
			inService,
			then(51, "rebooted", "Exempt DryRun", rules(r().DryRun(true)), reboot(50)),
		),
	})
}

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
	held := step{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
		changes: []string{"added cni " + pending}}
	play(t, map[string]story{
		"marker and removal in one patch, and never again after completion": {
			rules: []*build.RuleWrapper{once()}, node: fresh(),
			steps: []step{
				held,
				{tells: "ready", at: 9, node: ready(9), states: []string{"cni Ready EvidenceHolds"},
					changes:     []string{"removed cni " + pending, "completed cni"},
					annotations: map[string]string{recordKey: released(9), markerKey: isMarked}},
				{tells: "unready", at: 20, node: unready(20), states: []string{"cni Ready BootstrapCompleted"}, quiet: true},
				{tells: "restarted", at: 21, restart: true, states: []string{"cni Ready BootstrapCompleted"}, quiet: true},
				{tells: "the record is lost", at: 22, node: func(n *build.NodeWrapper) { n.Unannotate(recordKey) },
					states: []string{"cni Ready BootstrapCompleted"}, quiet: true},
				{tells: "somebody puts the taint on", at: 23, node: func(n *build.NodeWrapper) { n.Taint(key, "", noSchedule) },
					states: []string{"cni Ready BootstrapCompleted"}, changes: []string{"removed cni " + pending}},
			},
		},
		"a node that is ready when first seen is marked": {
			rules: []*build.RuleWrapper{once()}, node: old().Condition(cni, "True", at(-900)),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Ready EvidenceHolds"}, changes: []string{"completed cni"},
				annotations: map[string]string{recordKey: released(1), markerKey: isMarked}}},
		},
		"the marker by UID is honoured": {
			rules: []*build.RuleWrapper{once()}, node: fresh().Annotation(markerKey, isMarked),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Ready BootstrapCompleted"}, quiet: true}},
		},
		"the marker by UID is honoured, whatever its value": {
			rules: []*build.RuleWrapper{once()}, node: fresh().Annotation(markerKey, "true"),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Ready BootstrapCompleted"}, quiet: true}},
		},
		"the older marker by name is honoured, and left as it is": {
			rules: []*build.RuleWrapper{once()}, node: fresh().Annotation(oldMarker, isMarked),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Ready BootstrapCompleted"}, quiet: true}},
		},
		"a marked node loses the taint that the incumbent left": {
			rules: []*build.RuleWrapper{once()}, node: fresh().Taint(key, "pending", noSchedule).Annotation(oldMarker, isMarked),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Ready BootstrapCompleted"},
				changes:     []string{"removed cni " + pending},
				annotations: map[string]string{oldMarker: isMarked}}},
		},
		"a marker of another rule is none": {
			rules: []*build.RuleWrapper{once(), ruleOf("disk", disk, "readiness.k8s.io/disk").BootstrapOnly()},
			node:  fresh().Annotation(markerKey, isMarked),
			steps: []step{{tells: "seen", at: 1, taints: []string{"readiness.k8s.io/disk=pending:NoSchedule"},
				states:  []string{"cni Ready BootstrapCompleted", "disk Held EvidenceMissing"},
				changes: []string{"added disk readiness.k8s.io/disk=pending:NoSchedule"}}},
		},
		"both markers go with the rule, and nobody else's": {
			rules: []*build.RuleWrapper{once()},
			node: fresh().Annotation(markerKey, isMarked).Annotation(oldMarker,
				isMarked).Annotation("readiness.k8s.io/bootstrap-completed-u-other", "{}").Annotation("mine", "x"),
			steps: []step{{tells: "deleted", at: 1, rules: []*build.RuleWrapper{once().Deleted(at(1))}, states: []string{"cni"},
				annotations: map[string]string{"readiness.k8s.io/bootstrap-completed-u-other": "{}", "mine": "x"}}},
		},
		"a completed node that is relabelled out and in stays completed": {
			rules: []*build.RuleWrapper{once()}, node: fresh().Condition(cni, "True", at(0)),
			steps: []step{
				{tells: "completes", at: 1, states: []string{"cni Ready EvidenceHolds"}, changes: []string{"completed cni"}},
				{tells: "out", at: 2, node: func(n *build.NodeWrapper) { n.Unlabel("pool").Condition(cni, "False", at(2)) },
					states:      []string{"cni"},
					annotations: map[string]string{markerKey: isMarked}},
				{tells: "in", at: 3, node: func(n *build.NodeWrapper) { n.Label("pool", "workers") },
					states: []string{"cni Ready BootstrapCompleted"}, quiet: true},
			},
		},
		"a completed rule that becomes continuous holds the node again, as one in service": {
			rules: []*build.RuleWrapper{once()}, node: fresh().Annotation(markerKey, isMarked).Condition(cni, "False", at(0)),
			steps: []step{
				{tells: "completed", at: 1, states: []string{"cni Ready BootstrapCompleted"}, quiet: true},
				{tells: "edited, over budget", at: 2, rules: []*build.RuleWrapper{rule().MaxUnavailable("0")},
					refuse: []string{"cni"},
					states: []string{"cni Exempt OverBudget"}, quiet: true},
				{tells: "within budget", at: 3, refuse: []string{}, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending}},
			},
		},
	})
}

func TestCompletionAnnotation(t *testing.T) {
	r := func() *build.RuleWrapper { return rule().CompletionAnnotation(completedAt) }
	unix := func(seconds int) string { return fmt.Sprint(at(seconds).Unix()) }
	play(t, map[string]story{
		"is set in the patch that takes the taint off": {
			rules: []*build.RuleWrapper{r().BootstrapOnly()}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes:     []string{"added cni " + pending},
					annotations: map[string]string{recordKey: claimed(1)}},
				{tells: "ready", at: 9, node: ready(9), states: []string{"cni Ready EvidenceHolds"},
					changes:     []string{"removed cni " + pending, "completed cni"},
					annotations: map[string]string{recordKey: released(9), markerKey: isMarked, completedAt: unix(9)}},
			},
		},
		"is set where the node is ready when first seen": {
			rules: []*build.RuleWrapper{r()}, node: fresh().Condition(cni, "True", at(0)),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Ready EvidenceHolds"},
				annotations: map[string]string{recordKey: released(1), completedAt: unix(1)}}},
		},
		"is set when an existing node that was held is ready": {
			rules: []*build.RuleWrapper{r()}, node: old(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "ready", at: 9, node: ready(9), states: []string{"cni Ready EvidenceHolds"},
					changes:     []string{"removed cni " + pending},
					annotations: map[string]string{recordKey: released(1), completedAt: unix(9)}},
			},
		},
		"keeps the time of the first release": {
			rules: []*build.RuleWrapper{r()}, node: fresh().Annotation(completedAt, "5"),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "ready", at: 9, node: ready(9), states: []string{"cni Ready EvidenceHolds"},
					changes:     []string{"removed cni " + pending},
					annotations: map[string]string{recordKey: released(9), completedAt: "5"}},
			},
		},
		"is not set by a timeout": {
			rules: []*build.RuleWrapper{r().Timeout(10, 0, v1alpha1.TimeoutActionRelease)}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}, recheck: 11},
				{tells: "timed out", at: 11, states: []string{"cni Exempt TimedOut"},
					changes:     []string{"timedOut cni " + pending, "removed cni " + pending},
					annotations: map[string]string{recordKey: fmt.Sprintf(`{"rule":"cni","timedOut":%q}`, stamp(11))}},
			},
		},
		"is not set by an override": {
			rules: []*build.RuleWrapper{r()}, node: fresh().Annotation(v1alpha1.OverrideAnnotation, "Release"),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Exempt OverrideRelease"}, quiet: true}},
		},
		"is removed by a reboot, and set again": {
			rules: []*build.RuleWrapper{r().BootstrapOnly().RearmOnReboot()},
			node: fresh().BootID("b2").Annotation(recordKey, `{"bootID":"b1"}`).Annotation(markerKey,
				isMarked).Annotation(completedAt, "5").Condition("Ready", "True", at(50)),
			steps: []step{
				{tells: "rebooted", at: 51, taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending},
					annotations: map[string]string{recordKey: fmt.Sprintf(
						`{"rule":"cni","taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q}`,
						pending, stamp(51), stamp(50), stamp(51))}},
				{tells: "ready", at: 60, node: ready(60), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending, "completed cni"},
					annotations: map[string]string{recordKey: fmt.Sprintf(`{"rule":"cni","released":%q,"bootID":"b2"}`, stamp(60)),
						markerKey: isMarked, completedAt: unix(60)}},
			},
		},
		"stays with the node when the rule goes": {
			rules: []*build.RuleWrapper{r()}, node: fresh().Condition(cni, "True", at(0)),
			steps: []step{
				{tells: "ready", at: 1, states: []string{"cni Ready EvidenceHolds"}},
				{tells: "deleted", at: 2, rules: []*build.RuleWrapper{r().Deleted(at(2))}, states: []string{"cni"},
					annotations: map[string]string{completedAt: unix(1)}},
			},
		},
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
	inService := step{tells: "in service", at: 1, states: []string{"cni Ready EvidenceHolds"},
		annotations: record(`"released":%q,"bootID":"b1"`, stamp(1))}
	play(t, map[string]story{
		"the boot ID is recorded, of a node that is held too, and that is no reboot": {
			rules: []*build.RuleWrapper{r()}, node: fresh().BootID("b1"),
			steps: []step{{tells: "seen", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
				changes:     []string{"added cni " + pending},
				annotations: record(`"taint":%q,"since":%q,"bootID":"b1"`, pending, stamp(1))}},
		},
		"the boot ID of an existing node is recorded, and does not gate it": {
			rules: []*build.RuleWrapper{r()}, node: old().BootID("b1").Condition(cni, "True", at(-900)),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Ready EvidenceHolds"},
				annotations: record(`"bootID":"b1"`)}},
		},
		"an empty boot ID is none": {
			rules: []*build.RuleWrapper{r()}, node: joined().BootID(""),
			steps: []step{
				{tells: "not known yet", at: 1, states: []string{"cni Ready EvidenceHolds"},
					annotations: record(`"released":%q`, stamp(1))},
				{tells: "known", at: 2, node: func(n *build.NodeWrapper) { n.BootID("b1") },
					states:      []string{"cni Ready EvidenceHolds"},
					annotations: record(`"released":%q,"bootID":"b1"`, stamp(1))},
				{tells: "not known any more", at: 3, node: func(n *build.NodeWrapper) { n.BootID("") },
					states: []string{"cni Ready EvidenceHolds"}, quiet: true},
			},
		},
		"the condition stayed True all through the reboot: it counts when it is reported anew": {
			rules: []*build.RuleWrapper{r()}, node: joined(),
			steps: []step{
				inService,
				{tells: "rebooted", at: 51, node: reboot(50), taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending},
					annotations: record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q,"former":%q`, pending,
						stamp(51), stamp(50), stamp(51), stamp(1))},
				{tells: "kubelet's next heartbeat", at: 61, node: func(n *build.NodeWrapper) { n.Heartbeat("Ready", at(60)) },
					taints: []string{pending}, states: []string{"cni Held Rearmed"}, quiet: true},
				{tells: "restarted", at: 62, restart: true, taints: []string{pending}, states: []string{"cni Held Rearmed"},
					quiet: true},
				{tells: "reported one second too early", at: 63, node: func(n *build.NodeWrapper) { n.Heartbeat(cni, at(49)) },
					taints: []string{pending}, states: []string{"cni Held Rearmed"}, quiet: true},
				{tells: "reported", at: 64, node: func(n *build.NodeWrapper) { n.Heartbeat(cni, at(50)) },
					states: []string{"cni Ready EvidenceHolds"}, changes: []string{"removed cni " + pending},
					annotations: record(`"released":%q,"bootID":"b2"`, stamp(64))},
				{tells: "no second time", at: 70, node: func(n *build.NodeWrapper) { n.Heartbeat(cni, at(70)) },
					states: []string{"cni Ready EvidenceHolds"}, quiet: true},
			},
		},
		"bootstrap-only: the marker goes, and comes back": {
			rules: []*build.RuleWrapper{r().BootstrapOnly()}, node: joined(),
			steps: []step{
				{tells: "completed", at: 1, states: []string{"cni Ready EvidenceHolds"}, changes: []string{"completed cni"}},
				{tells: "rebooted", at: 51, node: reboot(50), taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending},
					annotations: record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q,"former":%q`, pending,
						stamp(51), stamp(50), stamp(51), stamp(1))},
				{tells: "reported", at: 64, node: func(n *build.NodeWrapper) { n.Heartbeat(cni, at(64)) },
					states:  []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending, "completed cni"}},
			},
		},
		"bootstrap-only, marked in the older form: that marker goes": {
			rules: []*build.RuleWrapper{r().BootstrapOnly()}, node: joined().Annotation(oldMarker, isMarked),
			steps: []step{
				{tells: "completed", at: 1, states: []string{"cni Ready BootstrapCompleted"}},
				{tells: "rebooted", at: 51, node: reboot(50), taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending},
					annotations: record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q`, pending, stamp(51),
						stamp(50), stamp(51))},
			},
		},
		"evidence that is newer than the boot when the reboot is first seen: no taint": {
			rules: []*build.RuleWrapper{r().BootstrapOnly()}, node: joined(),
			steps: []step{
				{tells: "completed", at: 1, states: []string{"cni Ready EvidenceHolds"}, changes: []string{"completed cni"}},
				{tells: "rebooted and reported", at: 60, node: func(n *build.NodeWrapper) {
					n.BootID("b2").Condition("Ready",
						"True", at(50)).Heartbeat(cni, at(55))
				},
					states: []string{"cni Ready EvidenceHolds"}, changes: []string{"rearmed cni " + pending}},
			},
		},
		"no window and no budget delays the claim": {
			rules: []*build.RuleWrapper{r().UnreadySeconds(300).MaxUnavailable("0")}, node: joined(),
			steps: []step{
				inService,
				{tells: "rebooted", at: 51, node: reboot(50), refuse: []string{"cni"}, taints: []string{pending},
					states:  []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending}},
			},
		},
		"existingNodes None does not exempt a rebooted node": {
			rules: []*build.RuleWrapper{r().ExistingNodes(v1alpha1.ExistingNodesNone)},
			node:  old().BootID("b1").Condition(cni, "False", at(-900)),
			steps: []step{
				{tells: "exempt", at: 1, states: []string{"cni Exempt ExistingNode"}, annotations: record(`"bootID":"b1"`)},
				{tells: "rebooted", at: 51, node: reboot(50), taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending}},
			},
		},
		"a held node that reboots is started over: the timeout too": {
			rules: []*build.RuleWrapper{r().Timeout(100, 0, v1alpha1.TimeoutActionRelease)},
			node:  fresh().BootID("b1").Condition(cni, "False", at(0)),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}, recheck: 101},
				{tells: "rebooted", at: 51, node: reboot(50), taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending}, recheck: 151},
				{tells: "one second before", at: 150, taints: []string{pending}, states: []string{"cni Held Rearmed"}, quiet: true,
					recheck: 151},
				{tells: "at the deadline", at: 151, states: []string{"cni Exempt TimedOut"},
					changes: []string{"timedOut cni " + pending, "removed cni " + pending}},
			},
		},
		"two reboots": {
			rules: []*build.RuleWrapper{r()}, node: joined(),
			steps: []step{
				inService,
				{tells: "the first", at: 51, node: reboot(50), taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending}},
				{tells: "the second", at: 81, node: func(n *build.NodeWrapper) {
					n.BootID("b3").Heartbeat("Ready",
						at(80)).Heartbeat(cni, at(79))
				},
					taints: []string{pending}, states: []string{"cni Held Rearmed"}, changes: []string{"rearmed cni " + pending},
					annotations: record(`"taint":%q,"since":%q,"bootID":"b3","notBefore":%q,"rearmedAt":%q,"former":%q`, pending,
						stamp(81), stamp(80), stamp(81), stamp(51))},
			},
		},
		"a rule that does not re-arm does not look": {
			rules: []*build.RuleWrapper{rule()}, node: joined(),
			steps: []step{
				{tells: "in service", at: 1, states: []string{"cni Ready EvidenceHolds"},
					annotations: record(`"released":%q`, stamp(1))},
				{tells: "rebooted", at: 51, node: reboot(50), states: []string{"cni Ready EvidenceHolds"}, quiet: true},
			},
		},
		"rearmOn edited away while the node is held: evidence counts at once": {
			rules: []*build.RuleWrapper{r()}, node: joined(),
			steps: []step{
				inService,
				{tells: "rebooted", at: 51, node: reboot(50), taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending}},
				{tells: "edited", at: 60, rules: []*build.RuleWrapper{rule().Generation(2)},
					states: []string{"cni Ready EvidenceHolds"}, changes: []string{"removed cni " + pending},
					annotations: record(`"released":%q`, stamp(60))},
			},
		},
		"rearmOn edited away while the node is held, and not ready for another reason": {
			rules: []*build.RuleWrapper{r()}, node: joined(),
			steps: []step{
				inService,
				{tells: "rebooted", at: 51, node: reboot(50), taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending}},
				{tells: "edited", at: 60, node: unready(60), rules: []*build.RuleWrapper{rule().Generation(2)},
					taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					annotations: map[string]string{recordKey: claimed(51)}},
			},
		},
		"a suspended rule waits with it, and does it when it is put in force": {
			rules: []*build.RuleWrapper{r()}, node: joined(),
			steps: []step{
				inService,
				{tells: "suspended and rebooted", at: 51, node: reboot(50),
					rules: []*build.RuleWrapper{r().Generation(2).Suspend(true)}, states: []string{"cni Ready EvidenceHolds"},
					quiet: true},
				{tells: "kubelet's heartbeat", at: 61, node: func(n *build.NodeWrapper) { n.Heartbeat("Ready", at(60)) },
					states: []string{"cni Ready EvidenceHolds"}, quiet: true},
				{tells: "in force", at: 70, rules: []*build.RuleWrapper{r().Generation(3)}, taints: []string{pending},
					states: []string{"cni Held Rearmed"}, changes: []string{"rearmed cni " + pending, "added cni " + pending}},
			},
		},
		"what a suspended rule holds through a reboot needs evidence from after it": {
			rules: []*build.RuleWrapper{r()}, node: fresh().BootID("b1").Condition(cni, "False", at(0)),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "suspended and rebooted", at: 51, node: func(n *build.NodeWrapper) {
					n.BootID("b2").Condition("Ready", "True", at(50)).Condition(cni, "True", at(40))
				},
					rules: []*build.RuleWrapper{r().Generation(2).Suspend(true)}, taints: []string{pending},
					states: []string{"cni Held Rearmed"}, changes: []string{"rearmed cni " + pending}},
				{tells: "kubelet's heartbeat, after the report", at: 71,
					node:   func(n *build.NodeWrapper) { n.Heartbeat("Ready", at(70)).Heartbeat(cni, at(60)) },
					states: []string{"cni Ready EvidenceHolds"}, changes: []string{"removed cni " + pending}},
			},
		},
		"a node that never reported Ready: evidence from before now does not count": {
			rules: []*build.RuleWrapper{r()}, node: joined(),
			steps: []step{
				inService,
				{tells: "rebooted", at: 51, node: func(n *build.NodeWrapper) { n.BootID("b2") }, taints: []string{pending},
					states: []string{"cni Held Rearmed"}, changes: []string{"rearmed cni " + pending, "added cni " + pending},
					annotations: record(`"taint":%q,"since":%q,"bootID":"b2","notBefore":%q,"rearmedAt":%q,"former":%q`, pending,
						stamp(51), stamp(51), stamp(51), stamp(1))},
			},
		},
		"a clock that was years ahead at the boot does not shut the gate for years": {
			rules: []*build.RuleWrapper{r()}, node: joined(),
			steps: []step{
				inService,
				{tells: "rebooted", at: 51, node: reboot(1 << 29), taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending}},
				{tells: "reported, by a clock set right", at: 60, node: func(n *build.NodeWrapper) { n.Heartbeat(cni, at(60)) },
					states: []string{"cni Ready EvidenceHolds"}, changes: []string{"removed cni " + pending}},
			},
		},
		"kubelet's clock is behind, to before the node's creation: what it reported before the boot does not count": {
			rules: []*build.RuleWrapper{r()}, node: joined().Heartbeat(cni, at(-100)),
			steps: []step{
				inService,
				{tells: "rebooted", at: 51, node: reboot(-50), taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending}},
				{tells: "later", at: 53, taints: []string{pending}, states: []string{"cni Held Rearmed"}, quiet: true},
				{tells: "reported", at: 60, node: func(n *build.NodeWrapper) { n.Heartbeat(cni, at(-40)) },
					states: []string{"cni Ready EvidenceHolds"}, changes: []string{"removed cni " + pending}},
			},
		},
		"dry-run reports it and starts nothing over": {
			rules: []*build.RuleWrapper{r()}, node: joined(),
			steps: []step{
				inService,
				{tells: "rebooted", at: 51, node: reboot(50), rules: []*build.RuleWrapper{r().DryRun(true)},
					states: []string{"cni Exempt DryRun"}, quiet: true},
			},
		},
	})
}

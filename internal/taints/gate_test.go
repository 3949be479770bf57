// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

const (
	recordKey = "readiness.node.x-k8s.io/rule-u-cni"
	markerKey = "readiness.k8s.io/bootstrap-completed-u-cni"
	oldMarker = "readiness.k8s.io/bootstrap-completed-cni"
	isMarked  = `{"rule-name":"cni"}`
	pending   = key + "=pending:NoSchedule"
)

// ready and unready report the CNI's condition.
func ready(seconds int) func(*build.NodeWrapper) {
	return func(n *build.NodeWrapper) { n.Condition(cni, "True", at(seconds)) }
}

func unready(seconds int) func(*build.NodeWrapper) {
	return func(n *build.NodeWrapper) { n.Condition(cni, "False", at(seconds)) }
}

func claimed(since int) string {
	return fmt.Sprintf(`{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule","since":"%s"}`, stamp(since))
}

func released(at int) string { return fmt.Sprintf(`{"rule":"cni","released":"%s"}`, stamp(at)) }

// counted makes a record say that its claim used the limit.
func counted(record string) string {
	return strings.Replace(record, `,"released"`, `,"limited":true,"released"`, 1)
}

func reclaimed(since, releasedAt int) string {
	return fmt.Sprintf(`{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule","since":"%s","released":"%s"}`,
		stamp(since), stamp(releasedAt))
}

func TestGate(t *testing.T) {
	play(t, map[string]story{
		"continuous: held until it holds, and again when it ceases to": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "nobody has reported anything", at: 1, taints: []string{pending},
					states:  []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}, annotations: map[string]string{recordKey: claimed(1)}},
				{tells: "False", at: 5, node: unready(5), taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					quiet: true},
				{tells: "True", at: 9, node: ready(9), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}, annotations: map[string]string{recordKey: released(9)}},
				{tells: "a heartbeat", at: 20, node: func(n *build.NodeWrapper) { n.Heartbeat(cni, at(20)) },
					states: []string{"cni Ready EvidenceHolds"}, quiet: true},
				{tells: "after a restart", at: 25, restart: true, states: []string{"cni Ready EvidenceHolds"}, quiet: true},
				{tells: "False again", at: 30, node: unready(30), taints: []string{pending},
					states:  []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}, annotations: map[string]string{recordKey: reclaimed(30, 9)}},
				{tells: "after a restart", at: 31, restart: true, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, quiet: true},
				{tells: "Unknown", at: 32, node: func(n *build.NodeWrapper) { n.Condition(cni, "Unknown", at(32)) },
					taints: []string{pending}, states: []string{"cni Held EvidenceMissing"}, quiet: true},
				{tells: "True again", at: 40, node: ready(40), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}, annotations: map[string]string{recordKey: released(9)}},
				{tells: "the condition is gone", at: 50, node: func(n *build.NodeWrapper) { n.Without(cni) },
					taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
			},
		},
		"continuous: a new node that is ready when first seen is released without a taint, and counts from then on": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Condition(cni, "True", at(1)),
			steps: []step{
				{tells: "first seen", at: 2, states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: released(2)}},
			},
		},
		"continuous: an existing node that is ready has nothing written to it": {
			rules: []*build.RuleWrapper{rule()}, node: old().Condition(cni, "True", at(-900)),
			steps: []step{{tells: "first seen", at: 2, states: []string{"cni Ready EvidenceHolds"}, quiet: true}},
		},
		"stale to the second, and fresh again with the condition True all through it": {
			rules: []*build.RuleWrapper{func() *build.RuleWrapper {
				r := rule()
				r.Spec.Conditions = nil
				return r.FreshCondition(cni, 60).ReadySeconds(10)
			}()}, node: fresh().Condition(cni, "True", at(0)),
			steps: []step{
				{tells: "released", at: 10, states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: released(10)}, recheck: 60},
				{tells: "one second before", at: 59, states: []string{"cni Ready EvidenceHolds"}, quiet: true, recheck: 60},
				{tells: "at the deadline", at: 60, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "a heartbeat: the window begins", at: 101, node: func(n *build.NodeWrapper) { n.Heartbeat(cni, at(100)) },
					taints: []string{pending}, states: []string{"cni Held ReadyWindow"}, quiet: true, recheck: 110},
				{tells: "a restart within the window", at: 102, restart: true, taints: []string{pending},
					states: []string{"cni Held ReadyWindow"}, quiet: true, recheck: 110},
				{tells: "one second before its end", at: 109, taints: []string{pending}, states: []string{"cni Held ReadyWindow"},
					quiet: true, recheck: 110},
				{tells: "at its end", at: 110, states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}, recheck: 160},
			},
		},
		"a clock behind the API server's: times that are written are not from before the node": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Condition(cni, "True", at(-20)),
			steps: []step{
				{tells: "ready", at: -10, states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: released(0)}},
				{tells: "unready", at: -5, node: unready(-5), taints: []string{pending},
					states:  []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}, annotations: map[string]string{recordKey: reclaimed(0, 0)}},
				{tells: "ready again", at: -1, node: ready(-1), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}, annotations: map[string]string{recordKey: released(0)}},
			},
		},
		"cordoned nodes are held like others": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Cordoned(),
			steps: []step{{tells: "new", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
				changes: []string{"added cni " + pending}}},
		},
	})
}

func TestTerminatingNodesGetNothingAdded(t *testing.T) {
	terminating := func(n *build.NodeWrapper) { n.Terminating(at(10)) }
	play(t, map[string]story{
		"no first claim": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Terminating(at(1)),
			steps: []step{{tells: "seen", at: 2, states: []string{"cni Exempt Terminating"}, quiet: true}},
		},
		"no new claim": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Annotation(recordKey, released(1)),
			steps: []step{{tells: "unready", at: 20, node: func(n *build.NodeWrapper) {
				n.Condition(cni, "False",
					at(15)).Terminating(at(10))
			},
				states: []string{"cni Exempt Terminating"}, quiet: true}},
		},
		"no marker, record or boot ID where there is no claim": {
			rules: []*build.RuleWrapper{rule().BootstrapOnly().RearmOnReboot()},
			node:  fresh().BootID("b1").Condition(cni, "True", at(1)).Terminating(at(1)),
			steps: []step{{tells: "seen", at: 2, states: []string{"cni Ready EvidenceHolds"}, quiet: true}},
		},
		"a claim stands until it is ready": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "claimed", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "terminating", at: 11, node: terminating, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, quiet: true},
				{tells: "ready", at: 12, node: ready(12), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"the taint of an edited rule is not put on it, the old one stays": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "claimed", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "edited", at: 11, node: terminating,
					rules:  []*build.RuleWrapper{rule().Generation(2).Taint("example.com/new", "", noExecute)},
					taints: []string{pending}, states: []string{"cni Held EvidenceMissing"}, quiet: true},
				{tells: "ready", at: 12, node: ready(12), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"a taint that somebody has taken off is not put back": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				{tells: "claimed", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "taken off", at: 11, node: func(n *build.NodeWrapper) { n.Terminating(at(10)).Untaint(key) },
					states: []string{"cni Exempt Terminating"}, annotations: map[string]string{}},
			},
		},
		"an override to hold adds nothing": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Terminating(at(1)).Annotation(v1alpha1.OverrideAnnotation,
				"Hold"),
			steps: []step{{tells: "seen", at: 2, states: []string{"cni Exempt Terminating"}, quiet: true}},
		},
	})
}

func TestWindows(t *testing.T) {
	play(t, map[string]story{
		"readySeconds, to the second": {
			rules: []*build.RuleWrapper{rule().ReadySeconds(10)}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "the window begins", at: 20, node: ready(20), taints: []string{pending},
					states: []string{"cni Held ReadyWindow"}, quiet: true, recheck: 30},
				{tells: "one second before", at: 29, taints: []string{pending}, states: []string{"cni Held ReadyWindow"},
					quiet: true, recheck: 30},
				{tells: "at its end", at: 30, states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"readySeconds begins anew after a break": {
			rules: []*build.RuleWrapper{rule().ReadySeconds(10)}, node: fresh(),
			steps: []step{
				{tells: "ready", at: 5, node: ready(5), taints: []string{pending}, states: []string{"cni Held ReadyWindow"},
					changes: []string{"added cni " + pending}, recheck: 15},
				{tells: "a break", at: 14, node: unready(14), taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, quiet: true},
				{tells: "ready", at: 15, node: ready(15), taints: []string{pending}, states: []string{"cni Held ReadyWindow"},
					quiet: true, recheck: 25},
			},
		},
		"a new node that is ready, but not for long enough, is held": {
			rules: []*build.RuleWrapper{rule().ReadySeconds(10)}, node: fresh().Condition(cni, "True", at(0)),
			steps: []step{{tells: "seen", at: 1, taints: []string{pending}, states: []string{"cni Held ReadyWindow"},
				changes: []string{"added cni " + pending}, recheck: 10}},
		},
		"a node in service that is ready, but not for long enough, is left alone": {
			rules: []*build.RuleWrapper{rule().ReadySeconds(10)}, node: old().Condition(cni, "True", at(0)),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Ready ReadyWindow"}, quiet: true, recheck: 10}},
		},
		"a restart does not shorten readySeconds": {
			rules: []*build.RuleWrapper{rule().ReadySeconds(10)}, node: fresh(),
			steps: []step{
				{tells: "ready", at: 5, node: ready(5), taints: []string{pending}, states: []string{"cni Held ReadyWindow"},
					changes: []string{"added cni " + pending}, recheck: 15},
				{tells: "restarted", at: 14, restart: true, taints: []string{pending}, states: []string{"cni Held ReadyWindow"},
					quiet: true, recheck: 15},
				{tells: "at its end", at: 15, states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"unreadySeconds, to the second": {
			rules: []*build.RuleWrapper{rule().UnreadySeconds(30)}, node: fresh().Annotation(recordKey, released(0)),
			steps: []step{
				{tells: "the window begins", at: 5, node: unready(5), states: []string{"cni Ready UnreadyWindow"}, quiet: true,
					recheck: 35},
				{tells: "one second before", at: 34, states: []string{"cni Ready UnreadyWindow"}, quiet: true, recheck: 35},
				{tells: "at its end", at: 35, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
			},
		},
		"unreadySeconds of a condition that is missing begins anew with the process": {
			rules: []*build.RuleWrapper{rule().UnreadySeconds(30)}, node: fresh().Annotation(recordKey, released(0)),
			steps: []step{
				{tells: "seen", at: 5, states: []string{"cni Ready UnreadyWindow"}, quiet: true, recheck: 35},
				{tells: "restarted", at: 34, restart: true, states: []string{"cni Ready UnreadyWindow"}, quiet: true, recheck: 64},
				{tells: "one second before", at: 63, states: []string{"cni Ready UnreadyWindow"}, quiet: true, recheck: 64},
				{tells: "at its end", at: 64, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
			},
		},
		"a condition that grows stale within unreadySeconds does not lengthen it": {
			rules: []*build.RuleWrapper{func() *build.RuleWrapper {
				r := rule().UnreadySeconds(30)
				r.Spec.Conditions = nil
				return r.FreshCondition(cni, 20)
			}()}, node: fresh().Annotation(recordKey, released(0)),
			steps: []step{
				{tells: "False", at: 5, node: unready(5), states: []string{"cni Ready UnreadyWindow"}, quiet: true, recheck: 35},
				{tells: "stale", at: 26, states: []string{"cni Ready UnreadyWindow"}, quiet: true, recheck: 35},
				{tells: "at its end", at: 35, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
			},
		},
		"unreadySeconds does not delay a node's first claim": {
			rules: []*build.RuleWrapper{rule().UnreadySeconds(30)}, node: fresh(),
			steps: []step{{tells: "new", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
				changes: []string{"added cni " + pending}}},
		},
		"unreadySeconds does not delay the first claim on an existing node that never was ready": {
			rules: []*build.RuleWrapper{rule().UnreadySeconds(30)}, node: old().Condition(cni, "False", at(-2*86400)),
			steps: []step{{tells: "seen", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
				changes: []string{"added cni " + pending}}},
		},
		"it does not where the rule was put in force within the window": {
			rules: []*build.RuleWrapper{inForce(rule().UnreadySeconds(30), -5)}, node: old().Condition(cni, "False", at(-6)),
			steps: []step{{tells: "seen", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
				changes: []string{"added cni " + pending}}},
		},
		"nor in the second in which the node ceased to be ready": {
			rules: []*build.RuleWrapper{inForce(rule().UnreadySeconds(30), -5)}, node: old().Condition(cni, "False", at(-5)),
			steps: []step{{tells: "seen", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
				changes: []string{"added cni " + pending}}},
		},
		"it does where that was a second after": {
			rules: []*build.RuleWrapper{inForce(rule().UnreadySeconds(30), -5)}, node: old().Condition(cni, "False", at(-4)),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Ready UnreadyWindow"}, quiet: true, recheck: 26}},
		},
		"unreadySeconds delays a claim on an existing node that was ready under the rule": {
			rules: []*build.RuleWrapper{rule().UnreadySeconds(30)}, node: old().Condition(cni, "False", at(0)),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Ready UnreadyWindow"}, quiet: true, recheck: 30}},
		},
		"minimumHoldSeconds, to the second, from the node's creation": {
			rules: []*build.RuleWrapper{rule().MinimumHoldSeconds(60)}, node: fresh().Condition(cni, "True", at(0)),
			steps: []step{
				{tells: "ready at once", at: 1, taints: []string{pending}, states: []string{"cni Held MinimumHold"},
					changes: []string{"added cni " + pending}, recheck: 60},
				{tells: "one second before", at: 59, taints: []string{pending}, states: []string{"cni Held MinimumHold"},
					quiet: true, recheck: 60},
				{tells: "at its end", at: 60, states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"minimumHoldSeconds does not hold a node that has been in service": {
			rules: []*build.RuleWrapper{rule().MinimumHoldSeconds(600)}, node: fresh().Annotation(recordKey, released(1)),
			steps: []step{
				{tells: "unready", at: 5, node: unready(5), taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "ready", at: 9, node: ready(9), states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"the later of readySeconds and minimumHoldSeconds decides": {
			rules: []*build.RuleWrapper{rule().ReadySeconds(50).MinimumHoldSeconds(60)},
			node:  fresh().Condition(cni, "True", at(20)),
			steps: []step{
				{tells: "seen", at: 21, taints: []string{pending}, states: []string{"cni Held ReadyWindow"},
					changes: []string{"added cni " + pending}, recheck: 60},
				{tells: "minimum hold over", at: 60, taints: []string{pending}, states: []string{"cni Held ReadyWindow"},
					quiet: true, recheck: 70},
				{tells: "window over", at: 70, states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
	})
}

func TestTimeout(t *testing.T) {
	const keep, release = v1alpha1.TimeoutActionKeep, v1alpha1.TimeoutActionRelease
	held := step{tells: "held", at: 10, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
		changes: []string{"added cni " + pending}}
	from := func(s step, recheck int) step { s.recheck = recheck; return s }
	timedOut := fmt.Sprintf(`{"rule":"cni","timedOut":"%s"}`, stamp(910))
	play(t, map[string]story{
		"Release: from the claim, to the second, and no claim again until it was ready once": {
			rules: []*build.RuleWrapper{rule().Timeout(900, 0, release)}, node: fresh().Condition(cni, "False", at(5)),
			steps: []step{
				from(held, 910),
				{tells: "one second before", at: 909, restart: true, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, quiet: true, recheck: 910},
				{tells: "at the deadline", at: 910, states: []string{"cni Exempt TimedOut"},
					changes:     []string{"timedOut cni " + pending, "removed cni " + pending},
					annotations: map[string]string{recordKey: timedOut}},
				{tells: "later", at: 5000, states: []string{"cni Exempt TimedOut"}, quiet: true},
				{tells: "restarted", at: 5001, restart: true, states: []string{"cni Exempt TimedOut"}, quiet: true},
				{tells: "False for another reason", at: 5002, node: unready(5002), states: []string{"cni Exempt TimedOut"},
					quiet: true},
				{tells: "ready", at: 6000, node: ready(6000), states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: released(6000)}},
				{tells: "not ready", at: 7000, node: unready(7000), taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending}, recheck: 7900},
			},
		},
		"Release: ready for a shorter time than readySeconds is not ready once": {
			rules: []*build.RuleWrapper{rule().Timeout(900, 0, release).ReadySeconds(30)},
			node:  fresh().Annotation(recordKey, timedOut),
			steps: []step{
				{tells: "ready", at: 1000, node: ready(1000), states: []string{"cni Ready TimedOut"}, quiet: true, recheck: 1030},
				{tells: "not ready", at: 1029, node: unready(1029), states: []string{"cni Exempt TimedOut"}, quiet: true},
			},
		},
		"Release with bootstrap-only: final until re-armed": {
			rules: []*build.RuleWrapper{rule().BootstrapOnly().RearmOnReboot().Timeout(900, 0, release)},
			node:  fresh().BootID("b1").Condition(cni, "False", at(5)),
			steps: []step{
				from(held, 910),
				{tells: "at the deadline", at: 910, states: []string{"cni Exempt TimedOut"},
					changes: []string{"timedOut cni " + pending, "removed cni " + pending}},
				{tells: "ready", at: 1000, node: ready(1000), states: []string{"cni Exempt TimedOut"}, quiet: true},
				{tells: "not ready", at: 1001, node: unready(1001), states: []string{"cni Exempt TimedOut"}, quiet: true},
				{tells: "rebooted", at: 2000, node: func(n *build.NodeWrapper) {
					n.BootID("b2").Condition("Ready", "True",
						at(2000))
				},
					taints: []string{pending}, states: []string{"cni Held Rearmed"},
					changes: []string{"rearmed cni " + pending, "added cni " + pending}, recheck: -1},
			},
		},
		"Keep: says so once, and holds on": {
			rules: []*build.RuleWrapper{rule().Timeout(900, 0, keep)}, node: fresh().Condition(cni, "False", at(5)),
			steps: []step{
				from(held, 910),
				{tells: "one second before", at: 909, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					quiet: true, recheck: 910},
				{tells: "at the deadline", at: 910, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"timedOut cni " + pending}},
				{tells: "later", at: 5000, restart: true, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					quiet: true},
				{tells: "ready", at: 6000, node: ready(6000), states: []string{"cni Ready EvidenceHolds"},
					changes:     []string{"removed cni " + pending},
					annotations: map[string]string{recordKey: released(6000)}},
				{tells: "held again", at: 7000, node: unready(7000), taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"added cni " + pending}, recheck: 7900},
				{tells: "again at the deadline", at: 7900, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"timedOut cni " + pending}},
			},
		},
		"no action is Keep": {
			rules: []*build.RuleWrapper{rule().Timeout(900, 0, "")}, node: fresh().Condition(cni, "False", at(5)),
			steps: []step{
				from(held, 910),
				{tells: "at the deadline", at: 910, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"timedOut cni " + pending}},
			},
		},
		"Keep, edited to Release after it has ended": {
			rules: []*build.RuleWrapper{rule().Timeout(900, 0, keep)}, node: fresh().Condition(cni, "False", at(5)),
			steps: []step{
				from(held, 910),
				{tells: "at the deadline", at: 910, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"timedOut cni " + pending}},
				{tells: "edited", at: 1000, rules: []*build.RuleWrapper{rule().Generation(2).Timeout(900, 0, release)},
					states: []string{"cni Exempt TimedOut"}, changes: []string{"removed cni " + pending}},
			},
		},
		"appearSeconds runs while a condition has not appeared": {
			rules: []*build.RuleWrapper{rule().Timeout(900, 300, release)}, node: fresh(),
			steps: []step{
				from(held, 310),
				{tells: "one second before", at: 309, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					quiet: true, recheck: 310},
				{tells: "at the deadline", at: 310, states: []string{"cni Exempt TimedOut"},
					changes: []string{"timedOut cni " + pending, "removed cni " + pending}},
			},
		},
		"appearSeconds does not matter once it has appeared": {
			rules: []*build.RuleWrapper{rule().Timeout(900, 300, release)}, node: fresh(),
			steps: []step{
				from(held, 310),
				{tells: "appeared", at: 305, node: unready(305), taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, quiet: true, recheck: 910},
				{tells: "past appearSeconds", at: 310, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					quiet: true, recheck: 910},
				{tells: "at the deadline", at: 910, states: []string{"cni Exempt TimedOut"},
					changes: []string{"timedOut cni " + pending, "removed cni " + pending}},
			},
		},
		"appearSeconds alone": {
			rules: []*build.RuleWrapper{rule().Timeout(0, 300, keep)}, node: fresh(),
			steps: []step{
				from(held, 310),
				{tells: "at the deadline", at: 310, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"timedOut cni " + pending}},
			},
		},
		"from the node's creation, where an admission policy made the claim, which has no clock": {
			rules: []*build.RuleWrapper{rule().Timeout(900, 0, release)},
			node: fresh().Taint(key, "pending", noSchedule).Annotation(recordKey,
				`{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			steps: []step{
				{tells: "seen", at: 50, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"}, quiet: true,
					recheck: 900},
				{tells: "one second before", at: 899, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					quiet: true, recheck: 900},
				{tells: "at the deadline", at: 900, states: []string{"cni Exempt TimedOut"},
					changes: []string{"timedOut cni " + pending, "removed cni " + pending}},
			},
		},
		"from when it is first seen, where an admission policy made the claim on a node that was there already": {
			rules: []*build.RuleWrapper{rule().Timeout(900, 0, release)},
			node: fresh().Taint(key, "pending", noSchedule).Annotation(recordKey,
				`{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule","late":true}`),
			steps: []step{
				{tells: "seen", at: 5000, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"}, recheck: 5900,
					annotations: map[string]string{
						recordKey: `{"rule":"cni","taint":"` + pending + `","since":"2026-01-02T16:23:20Z"}`}},
				{tells: "at the deadline", at: 5900, states: []string{"cni Exempt TimedOut"},
					changes: []string{"timedOut cni " + pending, "removed cni " + pending}},
			},
		},
		"from its adoption, where somebody else had put the taint there": {
			rules: []*build.RuleWrapper{rule().Timeout(900, 0, release)}, node: fresh().Taint(key, "kubelet", noSchedule),
			steps: []step{
				{tells: "adopted", at: 50, taints: []string{key + "=kubelet:NoSchedule"},
					states:  []string{"cni Held EvidenceMissing"},
					changes: []string{"adopted cni " + pending}, recheck: 950},
				{tells: "at the deadline", at: 950, states: []string{"cni Exempt TimedOut"},
					changes: []string{"timedOut cni " + pending, "removed cni " + pending}},
			},
		},
	})
}

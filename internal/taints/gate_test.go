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

// foreign makes a record say that another client had added the taint.
func foreign(record string) string { return strings.TrimSuffix(record, "}") + `,"adopted":true}` }

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
		"continuous: held until it holds, and again when it ceases to": on(fresh(), rules(rule()),
			then(1, "nothing is reported", "Held EvidenceMissing", added, recorded(claimed(1))),
			then(5, "False", "Held EvidenceMissing", unready(5)),
			then(9, "True", "Ready EvidenceHolds", ready(9), removed, recorded(released(9))),
			then(20, "a heartbeat", "Ready EvidenceHolds", func(n *build.NodeWrapper) { n.Heartbeat(cni, at(20)) }),
			then(25, "after a restart", "Ready EvidenceHolds", restarted),
			then(30, "False again", "Held EvidenceMissing", unready(30), added, recorded(reclaimed(30, 9))),
			then(31, "after a restart", "Held EvidenceMissing", restarted),
			then(32, "Unknown", "Held EvidenceMissing", func(n *build.NodeWrapper) { n.Condition(cni, "Unknown", at(32)) }),
			then(40, "True again", "Ready EvidenceHolds", ready(40), removed, recorded(released(9))),
			then(50, "the condition is gone", "Held EvidenceMissing", func(n *build.NodeWrapper) { n.Without(cni) }, added),
		),
		"continuous: a new node that is ready when first seen is released without a taint, and counts from then on": on(
			fresh().Condition(cni, "True", at(1)), rules(rule()),
			then(2, "first seen", "Ready EvidenceHolds", recorded(released(2))),
		),
		"continuous: an existing node that is ready has nothing written to it": on(old().Condition(cni, "True", at(-900)),
			rules(rule()),
			then(2, "first seen", "Ready EvidenceHolds"),
		),
		"stale to the second, and fresh again with the condition True all through it": on(
			fresh().Condition(cni, "True", at(0)),
			rules(func() *build.RuleWrapper {
				r := rule()
				r.Spec.Conditions = nil
				return r.FreshCondition(cni, 60).
					ReadySeconds(10)
			}()),
			then(10, "released", "Ready EvidenceHolds", recorded(released(10)), again(60)),
			then(59, "one second before", "Ready EvidenceHolds", again(60)),
			then(60, "at the deadline", "Held EvidenceMissing", added),
			then(101, "a heartbeat: the window begins", "Held ReadyWindow",
				func(n *build.NodeWrapper) { n.Heartbeat(cni, at(100)) }, again(110)),
			then(102, "a restart within the window", "Held ReadyWindow", restarted, again(110)),
			then(109, "one second before its end", "Held ReadyWindow", again(110)),
			then(110, "at its end", "Ready EvidenceHolds", removed, again(160)),
		),
		"a clock behind the API server's: times that are written are not from before the node": on(
			fresh().Condition(cni, "True", at(-20)), rules(rule()),
			then(-10, "ready", "Ready EvidenceHolds", recorded(released(0))),
			then(-5, "unready", "Held EvidenceMissing", unready(-5), added, recorded(reclaimed(0, 0))),
			then(-1, "ready again", "Ready EvidenceHolds", ready(-1), removed, recorded(released(0))),
		),
		"cordoned nodes are held like others": on(fresh().Cordoned(), rules(rule()),
			then(1, "new", "Held EvidenceMissing", added),
		),
	})
}

func TestTerminatingNodesGetNothingAdded(t *testing.T) {
	terminating := func(n *build.NodeWrapper) { n.Terminating(at(10)) }
	play(t, map[string]story{
		"no first claim": on(fresh().Terminating(at(1)), rules(rule()),
			then(2, "seen", "Exempt Terminating"),
		),
		"no new claim": on(fresh().Annotation(recordKey, released(1)), rules(rule()),
			then(20, "unready", "Exempt Terminating",
				func(n *build.NodeWrapper) { n.Condition(cni, "False", at(15)).Terminating(at(10)) }),
		),
		"no marker, record or boot ID where there is no claim": on(
			fresh().BootID("b1").Condition(cni, "True", at(1)).Terminating(at(1)),
			rules(rule().BootstrapOnly().RearmOnReboot()),
			then(2, "seen", "Ready EvidenceHolds"),
		),
		"a claim stands until it is ready": on(fresh(), rules(rule()),
			then(1, "claimed", "Held EvidenceMissing", added),
			then(11, "terminating", "Held EvidenceMissing", terminating),
			then(12, "ready", "Ready EvidenceHolds", ready(12), removed),
		),
		"the taint of an edited rule is not put on it, the old one stays": on(fresh(), rules(rule()),
			then(1, "claimed", "Held EvidenceMissing", added),
			then(11, "edited", "Held EvidenceMissing", rules(rule().Generation(2).Taint("example.com/new", "", noExecute)),
				terminating),
			then(12, "ready", "Ready EvidenceHolds", ready(12), removed),
		),
		"a taint that a user has removed is not added again": on(fresh(), rules(rule()),
			then(1, "claimed", "Held EvidenceMissing", added),
			then(11, "taken off", "Exempt Terminating", func(n *build.NodeWrapper) { n.Terminating(at(10)).Untaint(key) },
				clean),
		),
		"an override to hold adds nothing": on(fresh().Terminating(at(1)).Annotation(v1alpha1.OverrideAnnotation, "Hold"),
			rules(rule()),
			then(2, "seen", "Exempt Terminating"),
		),
	})
}

func TestWindows(t *testing.T) {
	play(t, map[string]story{
		"readySeconds, to the second": on(fresh(), rules(rule().ReadySeconds(10)),
			then(1, "held", "Held EvidenceMissing", added),
			then(20, "the window begins", "Held ReadyWindow", ready(20), again(30)),
			then(29, "one second before", "Held ReadyWindow", again(30)),
			then(30, "at its end", "Ready EvidenceHolds", removed),
		),
		"readySeconds begins again after a break": on(fresh(), rules(rule().ReadySeconds(10)),
			then(5, "ready", "Held ReadyWindow", ready(5), added, again(15)),
			then(14, "a break", "Held EvidenceMissing", unready(14)),
			then(15, "ready", "Held ReadyWindow", ready(15), again(25)),
		),
		"a new node that is ready, but not for long enough, is held": on(fresh().Condition(cni, "True", at(0)),
			rules(rule().ReadySeconds(10)),
			then(1, "seen", "Held ReadyWindow", added, again(10)),
		),
		"a node in service that is ready, but not for long enough, is left alone": on(old().Condition(cni, "True", at(0)),
			rules(rule().ReadySeconds(10)),
			then(1, "seen", "Ready ReadyWindow", again(10)),
		),
		"a restart does not shorten readySeconds": on(fresh(), rules(rule().ReadySeconds(10)),
			then(5, "ready", "Held ReadyWindow", ready(5), added, again(15)),
			then(14, "restarted", "Held ReadyWindow", restarted, again(15)),
			then(15, "at its end", "Ready EvidenceHolds", removed),
		),
		"unreadySeconds, to the second": on(fresh().Annotation(recordKey, released(0)), rules(rule().UnreadySeconds(30)),
			then(5, "the window begins", "Ready UnreadyWindow", unready(5), again(35)),
			then(34, "one second before", "Ready UnreadyWindow", again(35)),
			then(35, "at its end", "Held EvidenceMissing", added),
		),
		"unreadySeconds of a condition that is missing begins again with the process": on(
			fresh().Annotation(recordKey, released(0)), rules(rule().UnreadySeconds(30)),
			then(5, "seen", "Ready UnreadyWindow", again(35)),
			then(34, "restarted", "Ready UnreadyWindow", restarted, again(64)),
			then(63, "one second before", "Ready UnreadyWindow", again(64)),
			then(64, "at its end", "Held EvidenceMissing", added),
		),
		"a condition that grows stale within unreadySeconds does not lengthen it": on(
			fresh().Annotation(recordKey, released(0)), rules(func() *build.RuleWrapper {
				r := rule().
					UnreadySeconds(30)
				r.Spec.Conditions = nil
				return r.FreshCondition(cni, 20)
			}()),
			then(5, "False", "Ready UnreadyWindow", unready(5), again(35)),
			then(26, "stale", "Ready UnreadyWindow", again(35)),
			then(35, "at its end", "Held EvidenceMissing", added),
		),
		"unreadySeconds does not delay a node's first claim": on(fresh(), rules(rule().UnreadySeconds(30)),
			then(1, "new", "Held EvidenceMissing", added),
		),
		"unreadySeconds does not delay the first claim on an existing node that never was ready": on(
			old().Condition(cni, "False", at(-2*86400)), rules(rule().UnreadySeconds(30)),
			then(1, "seen", "Held EvidenceMissing", added),
		),
		"it does not where the rule was created within the window": on(old().Condition(cni, "False", at(-6)),
			rules(inForce(rule().Created(at(-5)).UnreadySeconds(30), -5)),
			then(1, "seen", "Held EvidenceMissing", added),
		),
		"nor in the second in which the node ceased to be ready": on(old().Condition(cni, "False", at(-5)),
			rules(inForce(rule().Created(at(-5)).UnreadySeconds(30), -5)),
			then(1, "seen", "Held EvidenceMissing", added),
		),
		"it does where the rule was resumed within the window": on(old().Condition(cni, "False", at(-6)),
			rules(inForce(rule().UnreadySeconds(30), -5)),
			then(1, "seen", "Ready UnreadyWindow", again(24)),
		),
		"it does where that was a second after": on(old().Condition(cni, "False", at(-4)),
			rules(inForce(rule().UnreadySeconds(30), -5)),
			then(1, "seen", "Ready UnreadyWindow", again(26)),
		),
		"unreadySeconds delays a claim on an existing node that was ready under the rule": on(
			old().Condition(cni, "False", at(0)), rules(rule().UnreadySeconds(30)),
			then(1, "seen", "Ready UnreadyWindow", again(30)),
		),
		"minimumHoldSeconds, to the second, from the node's creation": on(fresh().Condition(cni, "True", at(0)),
			rules(rule().MinimumHoldSeconds(60)),
			then(1, "ready at once", "Held MinimumHold", added, again(60)),
			then(59, "one second before", "Held MinimumHold", again(60)),
			then(60, "at its end", "Ready EvidenceHolds", removed),
		),
		"minimumHoldSeconds does not hold a node that has been in service": on(fresh().Annotation(recordKey, released(1)),
			rules(rule().MinimumHoldSeconds(600)),
			then(5, "unready", "Held EvidenceMissing", unready(5), added),
			then(9, "ready", "Ready EvidenceHolds", ready(9), removed),
		),
		"the later of readySeconds and minimumHoldSeconds decides": on(fresh().Condition(cni, "True", at(20)),
			rules(rule().ReadySeconds(50).MinimumHoldSeconds(60)),
			then(21, "seen", "Held ReadyWindow", added, again(60)),
			then(60, "minimum hold over", "Held ReadyWindow", again(70)),
			then(70, "window over", "Ready EvidenceHolds", removed),
		),
	})
}

func TestTimeout(t *testing.T) {
	const keep, release = v1alpha1.TimeoutActionKeep, v1alpha1.TimeoutActionRelease
	held := then(10, "held", "Held EvidenceMissing", added)
	from := func(s step, recheck int) step { s.recheck = recheck; return s }
	letPass := fmt.Sprintf(`{"rule":"cni","timedOut":"%s"}`, stamp(910))
	play(t, map[string]story{
		"Release: from the claim, to the second, and no claim again until it was ready once": on(
			fresh().Condition(cni, "False", at(5)), rules(rule().Timeout(900, 0, release)),
			from(held, 910),
			then(909, "one second before", "Held EvidenceMissing", restarted, again(910)),
			then(910, "at the deadline", "Exempt TimedOut", timedOut, removed, recorded(letPass)),
			then(5000, "later", "Exempt TimedOut"),
			then(5001, "restarted", "Exempt TimedOut", restarted),
			then(5002, "False for another reason", "Exempt TimedOut", unready(5002)),
			then(6000, "ready", "Ready EvidenceHolds", ready(6000), recorded(released(6000))),
			then(7000, "not ready", "Held EvidenceMissing", unready(7000), added, again(7900)),
		),
		"Release: ready for a shorter time than readySeconds is not ready once": on(fresh().Annotation(recordKey, letPass),
			rules(rule().Timeout(900, 0, release).ReadySeconds(30)),
			then(1000, "ready", "Ready TimedOut", ready(1000), again(1030)),
			then(1029, "not ready", "Exempt TimedOut", unready(1029)),
		),
		"Release with bootstrap-only: final until re-armed": on(fresh().BootID("b1").Condition(cni, "False", at(5)),
			rules(rule().BootstrapOnly().RearmOnReboot().Timeout(900, 0, release)),
			from(held, 910),
			then(910, "at the deadline", "Exempt TimedOut", timedOut, removed),
			then(1000, "ready", "Exempt TimedOut", ready(1000)),
			then(1001, "not ready", "Exempt TimedOut", unready(1001)),
			then(2000, "rebooted", "Held Rearmed",
				func(n *build.NodeWrapper) { n.BootID("b2").Condition("Ready", "True", at(2000)) }, rearmed, added, again(-1)),
		),
		"Keep: says so once, and holds on": on(fresh().Condition(cni, "False", at(5)), rules(rule().Timeout(900, 0, keep)),
			from(held, 910),
			then(909, "one second before", "Held EvidenceMissing", again(910)),
			then(910, "at the deadline", "Held EvidenceMissing", timedOut),
			then(5000, "later", "Held EvidenceMissing", restarted),
			then(6000, "ready", "Ready EvidenceHolds", ready(6000), removed, recorded(released(6000))),
			then(7000, "held again", "Held EvidenceMissing", unready(7000), added, again(7900)),
			then(7900, "again at the deadline", "Held EvidenceMissing", timedOut),
		),
		"no action is Keep": on(fresh().Condition(cni, "False", at(5)), rules(rule().Timeout(900, 0, "")),
			from(held, 910),
			then(910, "at the deadline", "Held EvidenceMissing", timedOut),
		),
		"Keep, edited to Release after it has ended": on(fresh().Condition(cni, "False", at(5)),
			rules(rule().Timeout(900, 0, keep)),
			from(held, 910),
			then(910, "at the deadline", "Held EvidenceMissing", timedOut),
			then(1000, "edited", "Exempt TimedOut", rules(rule().Generation(2).Timeout(900, 0, release)), removed),
		),
		"appearSeconds runs while a condition has not appeared": on(fresh(), rules(rule().Timeout(900, 300, release)),
			from(held, 310),
			then(309, "one second before", "Held EvidenceMissing", again(310)),
			then(310, "at the deadline", "Exempt TimedOut", timedOut, removed),
		),
		"appearSeconds does not matter once it has appeared": on(fresh(), rules(rule().Timeout(900, 300, release)),
			from(held, 310),
			then(305, "appeared", "Held EvidenceMissing", unready(305), again(910)),
			then(310, "past appearSeconds", "Held EvidenceMissing", again(910)),
			then(910, "at the deadline", "Exempt TimedOut", timedOut, removed),
		),
		"appearSeconds alone": on(fresh(), rules(rule().Timeout(0, 300, keep)),
			from(held, 310),
			then(310, "at the deadline", "Held EvidenceMissing", timedOut),
		),
		"from the node's creation, where an admission policy made the claim, which has no clock": on(fresh().
			Taint(key, "pending", noSchedule).Annotation(recordKey, `{"taint":"readiness.k8s.io/cni=pending:NoSchedule"}`),
			rules(rule().Timeout(900, 0, release)),
			then(50, "seen", "Held EvidenceMissing", again(900)),
			then(899, "one second before", "Held EvidenceMissing", again(900)),
			then(900, "at the deadline", "Exempt TimedOut", timedOut, removed),
		),
		"from when it is first seen, where an admission policy made the claim on a node that was there already": on(fresh().
			Taint(key, "pending", noSchedule).
			Annotation(recordKey, `{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule","late":true}`),
			rules(rule().Timeout(900, 0, release)),
			then(5000, "seen", "Held EvidenceMissing",
				recorded(`{"rule":"cni","taint":"`+pending+`","since":"2026-01-02T16:23:20Z","counted":true}`), again(5900)),
			then(5900, "at the deadline", "Exempt TimedOut", timedOut, removed),
		),
		"from its adoption, if another client had added the taint": on(fresh().Taint(key, "kubelet", noSchedule),
			rules(rule().Timeout(900, 0, release)),
			then(50, "adopted", "Held EvidenceMissing", adopted, tainted{key + "=kubelet:NoSchedule"}, again(950)),
			then(950, "at the deadline", "Exempt TimedOut", timedOut, removed),
		),
	})
}

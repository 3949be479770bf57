// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

// TestAStartEndsOnce: how the start of a node under a rule ends, and what the record has of it, so that another leader
// does not count it again.
func TestAStartEndsOnce(t *testing.T) {
	fresh := func() *build.NodeWrapper { return node().Created(now) }
	none := state.Startup("-") // not starting
	begins := scene{at: 1, tells: "seen", want: "Held EvidenceMissing", taints: taint, start: state.Starting}
	released := []string{`"released"`}
	again := func(at int, want, taints string, s state.Startup) scene {
		return scene{at: at, tells: "another leader", restarted: true, want: want, taints: taints, start: s}
	}
	timeout := func(action v1alpha1.TimeoutAction) *build.RuleWrapper { return rule("r", "A").Timeout(100, 0, action) }
	reboot := func(boot string, at int) func(*build.NodeWrapper) {
		return func(n *build.NodeWrapper) { n.BootID(boot).Condition("Ready", "True", second(at)) }
	}
	for name, c := range map[string]struct {
		rule   *build.RuleWrapper
		node   *build.NodeWrapper
		scenes []scene
	}{
		"ready": {rule("r", "A"), fresh(), []scene{begins,
			{at: 9, tells: "ready", node: is("True", 9), want: "Ready EvidenceHolds", start: state.Ready, record: released},
			again(10, "Ready EvidenceHolds", "", none),
			{at: 20, tells: "unready again", node: is("False", 20), want: "Held EvidenceMissing", taints: taint, start: none},
			{at: 30, tells: "ready again", node: is("True", 30), want: "Ready EvidenceHolds", start: none}}},
		"ready when it is first seen": {rule("r", "A"), fresh().Condition("A", "True", second(0)), []scene{
			{at: 1, tells: "seen", want: "Ready EvidenceHolds", start: state.Ready}, again(2, "Ready EvidenceHolds", "", none)}},
		"older than the objective": {rule("r", "A"), fresh(), []scene{begins,
			{at: 299, tells: "not yet", want: "Held EvidenceMissing", taints: taint, start: state.Starting, untouched: true},
			{at: 300, tells: "older", want: "Held EvidenceMissing", taints: taint, start: state.Starting,
				record: []string{`"missed":true`}},
			{at: 301, tells: "later", restarted: true, want: "Held EvidenceMissing", taints: taint, start: state.Starting,
				untouched: true},
			{at: 299, tells: "the clock goes back", want: "Held EvidenceMissing", taints: taint, start: state.Starting,
				untouched: true},
			{at: 400, tells: "ready", node: is("True", 400), want: "Ready EvidenceHolds", start: state.Ready,
				record: []string{`{"rule":"r","released":"2026-01-02T03:10:45Z"}`}}}},
		"released by its timeout": {timeout(v1alpha1.TimeoutActionRelease), fresh(), []scene{begins,
			{at: 101, tells: "timed out", want: "Exempt TimedOut", start: state.TimedOut, record: []string{`"timedOut"`}},
			again(102, "Exempt TimedOut", "", none),
			{at: 110, tells: "ready", node: is("True", 110), want: "Ready EvidenceHolds", start: none, record: released}}},
		"held after its timeout": {timeout(v1alpha1.TimeoutActionKeep), fresh(), []scene{begins,
			{at: 101, tells: "timed out", want: "Held EvidenceMissing", taints: taint, start: state.TimedOut},
			again(500, "Held EvidenceMissing", taint, none),
			{at: 510, tells: "ready", node: is("True", 510), want: "Ready EvidenceHolds", start: none}}},
		"overridden": {rule("r", "A"), fresh(), []scene{begins,
			{at: 5, tells: "released by a person", node: overridden("Release"), want: "Exempt OverrideRelease",
				start: state.Excluded, record: []string{`{"rule":"r","counted":true}`}},
			again(6, "Exempt OverrideRelease", "", none),
			{at: 7, tells: "lifted", node: overridden("x"), want: "Held EvidenceMissing", taints: taint, start: none,
				record: []string{`"counted":true`}},
			{at: 9, tells: "ready", node: is("True", 9), want: "Ready EvidenceHolds", start: none,
				record: []string{`{"rule":"r","released":"2026-01-02T03:04:14Z","found":true}`}}}},
		"labelled late": {rule("r", "A"), node().Created(second(-601)), []scene{
			{at: 0, tells: "matches", want: "Held EvidenceMissing", taints: taint, start: state.Excluded},
			again(1, "Held EvidenceMissing", taint, none)}},
		"labelled late and ready at once: one patch": {rule("r", "A"), node().Created(second(-601)).
			Condition("A", corev1.ConditionTrue, second(-1)), []scene{
			{at: 0, tells: "matches", want: "Ready EvidenceHolds", start: state.Excluded,
				record: []string{`{"rule":"r","released":"2026-01-02T03:04:05Z","found":true}`}},
			{at: 1, tells: "again", want: "Ready EvidenceHolds", start: none, untouched: true}}},
		"labelled later, by an admission policy": {rule("r", "A"), node().Created(second(-601)).
			Taint(taint, "", corev1.TaintEffectNoSchedule).
			Annotation("nodegate.io/rule-uid-of-r", `{"taint":"example.com/r=:NoSchedule","late":true}`), []scene{
			{at: 0, tells: "matches", want: "Held EvidenceMissing", taints: taint, start: state.Excluded}}},
		"labelled in time": {rule("r", "A"), node().Created(second(-600)), []scene{
			{at: 0, tells: "matches", want: "Held EvidenceMissing", taints: taint, start: state.Starting},
			{at: 2000, tells: "held for long", want: "Held EvidenceMissing", taints: taint, start: state.Starting}}},
		"existed before the rule": {rule("r", "A").Created(second(10)), fresh(), []scene{
			{at: 11, tells: "seen", want: "Held EvidenceMissing", taints: taint, start: none}}},
		"rebooted in its start": {rule("r", "A").RearmOnReboot(), fresh().BootID("b1"), []scene{begins,
			{at: 5, tells: "rebooted", node: reboot("b2", 5), want: "Held Rearmed", taints: taint, start: state.Starting,
				record: []string{`"starting":true`}},
			again(6, "Held Rearmed", taint, state.Starting),
			{at: 50, tells: "ready", node: is("True", 50), want: "Ready EvidenceHolds", start: state.Ready,
				record: []string{`{"rule":"r","released":"2026-01-02T03:04:55Z","bootID":"b2"}`}},
			{at: 60, tells: "rebooted after it", node: reboot("b3", 60), want: "Held Rearmed", taints: taint, start: none},
			again(61, "Held Rearmed", taint, none),
			{at: 90, tells: "ready", node: is("True", 90), want: "Ready EvidenceHolds", start: none}}},
		"terminating when it is ready": {rule("r", "A"), fresh(), []scene{begins,
			{at: 9, tells: "ready", node: func(n *build.NodeWrapper) { is("True", 9)(n.Terminating(second(8))) },
				want: "Ready EvidenceHolds", start: state.Ready, record: released},
			again(10, "Ready EvidenceHolds", "", none)}},
		"terminating when it is first seen": {rule("r", "A"), fresh().Condition("A", "True", second(0)).
			Terminating(second(0)), []scene{{at: 1, tells: "seen", want: "Ready EvidenceHolds", start: none}}},
		"terminating when it is older than the objective": {rule("r", "A"), fresh(), []scene{begins,
			{at: 300, tells: "older", node: func(n *build.NodeWrapper) { n.Terminating(second(299)) },
				want: "Held EvidenceMissing", taints: taint, start: state.Starting, untouched: true}}},
		"no hold": {rule("r", "A").Untainted().EvictionGuard(60), fresh(), []scene{
			{at: 1, tells: "seen", want: "Held EvidenceMissing", start: none}}},
	} {
		t.Run(name, func(t *testing.T) { tell(t, c.rule, c.node, c.scenes...) })
	}
}

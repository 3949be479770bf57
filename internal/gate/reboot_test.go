// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/story"
)

// TestARebootThatIsFoundLater: after a time without an operator, or with a suspended rule, many nodes may have
// rebooted.
func TestARebootThatIsFoundLater(t *testing.T) {
	rearming := func() *build.RuleWrapper { return rule("r", "A").RearmOnReboot().MaxUnavailable("1") }
	evicting := func() *build.RuleWrapper { return rearming().Taint(taint, "", corev1.TaintEffectNoExecute) }
	ready := func() *build.NodeWrapper {
		return node().Created(second(-10000)).BootID("b1").Condition("Ready", "True", second(-60)).Condition("A", "True",
			second(-60)).Annotation("nodegate.io/rule-uid-of-r",
			`{"rule":"r","released":"2026-01-02T03:04:00Z","bootID":"b1"}`)
	}
	seen := scene{at: 1, tells: "seen", want: "Ready EvidenceHolds"}
	reboot := func(at int) func(*build.NodeWrapper) {
		return func(n *build.NodeWrapper) { n.BootID("b2").Condition("Ready", "True", second(at)) }
	}
	reported := func(at int) func(*build.NodeWrapper) {
		return func(n *build.NodeWrapper) { n.Heartbeat("A", second(at)) }
	}
	kubelet := func(at int) func(*build.NodeWrapper) {
		return func(n *build.NodeWrapper) { n.Heartbeat("Ready", second(at)) }
	}
	long := strings.Repeat("b", 300<<10)
	started := []string{`"bootID":"b2"`, `"notBefore"`, `"released":"2026-01-02T03:04:00Z"`}
	for name, c := range map[string]struct {
		rule   *build.RuleWrapper
		scenes []scene
	}{
		"seen by the operator: no window and no limit": {rearming().UnreadySeconds(60), []scene{seen,
			{at: 10, tells: "rebooted", node: reboot(9), want: "Held Rearmed", taints: taint, record: started[:2]}}},
		"found at the start: maxUnavailable has no room": {rearming(), []scene{seen,
			{at: 10, tells: "rebooted", restarted: true, node: reboot(9), full: true, asks: true, want: "Exempt OverBudget",
				record: started},
			{at: 11, tells: "still none", full: true, asks: true, want: "Exempt OverBudget", record: started},
			{at: 12, tells: "restarted", restarted: true, asks: true, want: "Held Rearmed", taints: taint, record: started},
			{at: 20, tells: "reported since the boot", node: reported(20), want: "Ready EvidenceHolds"}}},
		"found at the start: unreadySeconds": {rearming().UnreadySeconds(60), []scene{seen,
			{at: 10, tells: "rebooted", restarted: true, node: reboot(9), want: "Ready UnreadyWindow", record: started},
			{at: 69, tells: "one second early", want: "Ready UnreadyWindow"},
			{at: 70, tells: "at its end", asks: true, want: "Held Rearmed", taints: taint}}},
		"found at the start, on a node that was never ready: unreadySeconds": {rearming().UnreadySeconds(60), []scene{
			{at: 1, tells: "existed before the rule", full: true, asks: true, want: "Exempt OverBudget",
				node: func(n *build.NodeWrapper) { is("False", -9000)(n.Unannotate("nodegate.io/rule-uid-of-r")) }},
			{at: 10, tells: "rebooted, by a clock from before the rule", restarted: true, node: reboot(-4000),
				want: "Ready UnreadyWindow"},
			{at: 70, tells: "at its end", asks: true, want: "Held Rearmed", taints: taint}}},
		"found by a leader whose clock is ahead: the next does not wait longer": {rearming().UnreadySeconds(60), []scene{
			seen,
			{at: 110, tells: "rebooted", restarted: true, node: reboot(9), want: "Ready UnreadyWindow", record: started},
			{at: 20, tells: "another leader", restarted: true, want: "Ready UnreadyWindow", record: started},
			{at: 80, tells: "unreadySeconds later", asks: true, want: "Held Rearmed", taints: taint}}},
		"found at the start, by a rule without a taint": {rearming().Untainted().Health("rules"), []scene{seen,
			{at: 10, tells: "rebooted", restarted: true, node: reboot(9), asks: true, want: "Held Rearmed",
				record: started}}},
		"found at the start, on a node that an override held before: maxUnavailable has no room": {rearming(), []scene{seen,
			{at: 5, tells: "held by a person", node: overridden("Hold"), want: "Held OverrideHold", taints: taint},
			{at: 10, tells: "rebooted and lifted", restarted: true, full: true, asks: true, want: "Exempt OverBudget",
				node: func(n *build.NodeWrapper) { reboot(9)(n.Unannotate(v1alpha1.OverrideAnnotation)) }, record: started}}},
		"found at the start, and reported in time": {rearming().UnreadySeconds(60), []scene{seen,
			{at: 10, tells: "rebooted", restarted: true, node: reboot(9), want: "Ready UnreadyWindow", record: started},
			{at: 20, tells: "reported", node: reported(20), want: "Ready EvidenceHolds",
				record: []string{`"bootID":"b2"}`}},
			{at: 30, tells: "the next reboot is seen",
				node: func(n *build.NodeWrapper) { reboot(30)(n); n.BootID("b3") },
				want: "Held Rearmed", taints: taint}}},
		"found at resume": {rearming(), []scene{seen,
			{at: 5, tells: "suspended", rule: suspend, want: "Ready Suspended", untouched: true},
			{at: 10, tells: "rebooted", node: reboot(9), want: "Ready Suspended", untouched: true},
			{at: 20, tells: "resumed", rule: resume, full: true, asks: true, want: "Exempt OverBudget", record: started}}},
		"found at resume, on a held node: it stays held": {rearming(), []scene{seen,
			{at: 2, tells: "lost", node: is("False", 2), asks: true, want: "Held EvidenceMissing", taints: taint},
			{at: 5, tells: "suspended", rule: suspend, want: "Held Suspended", taints: taint, untouched: true},
			{at: 10, tells: "rebooted", node: reboot(9), want: "Held Suspended", taints: taint, untouched: true},
			{at: 20, tells: "resumed", rule: resume, want: "Held Rearmed", taints: taint,
				record: append([]string{`"limited":true`}, started...)}}},
		"by IDs of 300 KB: the record keeps their hashes": {rearming(), []scene{
			{at: 1, tells: "in service, and not ready", node: func(n *build.NodeWrapper) { is("False", 1)(n); n.BootID("b1") },
				asks: true, want: "Held EvidenceMissing", taints: taint},
			{at: 10, tells: "rebooted", node: func(n *build.NodeWrapper) { reboot(9)(n); n.BootID(long) },
				want: "Held Rearmed", taints: taint, record: []string{`"bootID":"sha256:9939ed37ccf7325853dbd241a5c7ef7a"`}},
			{at: 11, tells: "the same boot", want: "Held Rearmed", taints: taint, untouched: true},
			{at: 20, tells: "reported since the boot", node: is("True", 20), want: "Ready EvidenceHolds"},
			{at: 30, tells: "rebooted again", node: func(n *build.NodeWrapper) { reboot(29)(n); n.BootID(long + "b") },
				want: "Held Rearmed", taints: taint}}},
		"an earlier version kept a long ID as it was: no reboot": {rearming(), []scene{
			{at: 1, tells: "seen", node: func(n *build.NodeWrapper) {
				n.BootID(long[:99]).Annotation("nodegate.io/rule-uid-of-r",
					`{"rule":"r","released":"2026-01-02T03:04:00Z","bootID":"`+long[:99]+`"}`)
			}, want: "Ready EvidenceHolds", record: []string{`"bootID":"sha256:`}},
			{at: 2, tells: "the same boot", want: "Ready EvidenceHolds", untouched: true}}},
		"NoExecute waits until the boot is confirmed": {evicting(), []scene{seen,
			{at: 10, tells: "rebooted", restarted: true, node: reboot(9), want: "Exempt Booting", record: started},
			{at: 129, tells: "kubelet reports", node: kubelet(129), want: "Exempt Booting"},
			{at: 130, tells: "confirmed", asks: true, want: "Held Rearmed", taints: taint}}},
		"NoExecute does not wait forever": {evicting(), []scene{seen,
			{at: 10, tells: "rebooted", restarted: true, node: reboot(9), want: "Exempt Booting", record: started},
			{at: 609, tells: "kubelet's clock stands still", want: "Exempt Booting"},
			{at: 610, tells: "ten minutes later", asks: true, want: "Held Rearmed", taints: taint}}},
		"NoExecute waits two minutes from when the node became Ready": {evicting(), []scene{seen,
			{at: 10, tells: "rebooted", restarted: true, node: reboot(9), want: "Exempt Booting", record: started},
			{at: 100, tells: "Ready again", node: func(n *build.NodeWrapper) {
				n.Condition("Ready", "True", second(100))
			}, want: "Exempt Booting"},
			{at: 219, tells: "one second early", node: kubelet(219), want: "Exempt Booting"},
			{at: 220, tells: "confirmed", node: kubelet(220), asks: true, want: "Held Rearmed", taints: taint}}},
		"in dry-run, on a node whose clock is ahead: the boot is confirmed": {rearming(), []scene{seen,
			{at: 5, tells: "in dry-run", rule: func(r *build.RuleWrapper) { r.DryRun(true) }, want: "Ready EvidenceHolds"},
			{at: 10, tells: "rebooted", node: func(n *build.NodeWrapper) { reboot(9)(n); reported(4000)(n) },
				want: "Exempt DryRun", record: started},
			{at: 130, tells: "kubelet reports", node: kubelet(130), want: "Ready EvidenceHolds"}}},
		"in dry-run after a reboot: the start stays counted": {rearming(), []scene{seen,
			{at: 10, tells: "rebooted", node: reboot(9), want: "Held Rearmed", taints: taint},
			{at: 20, tells: "in dry-run", rule: func(r *build.RuleWrapper) { r.DryRun(true) }, node: reported(20),
				want: "Ready EvidenceHolds", record: []string{`"counted":true`}}}},
		"bootstrap-only: the node starts over within the limit": {rearming().BootstrapOnly(), []scene{
			{at: 1, tells: "completes", want: "Ready EvidenceHolds"},
			{at: 10, tells: "rebooted", restarted: true, node: reboot(9), full: true, asks: true, want: "Exempt OverBudget",
				record: started},
			{at: 20, tells: "reported", node: reported(20), want: "Ready EvidenceHolds"},
			{at: 30, tells: "completed", node: is("False", 30), want: "Ready BootstrapCompleted"}}},
	} {
		t.Run(name, func(t *testing.T) { tell(t, c.rule, ready(), c.scenes...) })
	}
}

// TestARebootUnderARuleThatRequiresAnother: that one's readiness may be from before the boot.
func TestARebootUnderARuleThatRequiresAnother(t *testing.T) {
	const held, ready = "Held Rearmed", "Ready EvidenceHolds"
	type moment struct {
		at     int
		report bool // of the required rule's condition
		want   string
	}
	plain := func() *build.RuleWrapper { return rule("first", "A") }
	for name, c := range map[string]struct {
		first     *build.RuleWrapper
		restarted bool
		later     func(*story.World) // ten seconds after the reboot
		moments   []moment
	}{
		"which does not re-arm: it counts once the boot is confirmed": {first: plain(), moments: []moment{
			{0, false, ready + ", " + held}, {119, true, ready + ", " + held}, {120, false, ready + ", " + ready}}},
		"which re-arms: it counts once it is ready": {first: plain().RearmOnReboot(), moments: []moment{
			{0, false, held + ", " + held}, {10, false, held + ", " + held}, {20, true, ready + ", " + ready}}},
		"which re-arms, and is ready at once": {first: plain().RearmOnReboot(), moments: []moment{
			{0, true, ready + ", " + ready}}},
		"which re-arms, and is in service until unreadySeconds end": {
			first: plain().RearmOnReboot().UnreadySeconds(600), restarted: true, moments: []moment{
				{0, false, "Ready UnreadyWindow, " + held}, {119, false, "Ready UnreadyWindow, " + held},
				{120, false, "Ready UnreadyWindow, " + ready}}},
		"which re-arms, is in service, and becomes ready": {
			first: plain().RearmOnReboot().UnreadySeconds(600), restarted: true, moments: []moment{
				{0, false, "Ready UnreadyWindow, " + held}, {20, true, ready + ", " + ready}}},
		"which re-arms only since then: it counts once the boot is confirmed": {first: plain(),
			later: func(w *story.World) { w.Objects[0] = w.Objects[0].RearmOnReboot().Generation(2) }, moments: []moment{
				{0, false, ready + ", " + held}, {10, false, ready + ", " + held}, {119, false, ready + ", " + held},
				{120, false, ready + ", " + ready}}},
		"which re-arms, and is ready after a restart": {first: plain().RearmOnReboot(), later: (*story.World).Restart,
			moments: []moment{{9, false, held + ", " + held}, {10, true, ready + ", " + ready}}},
		"which re-arms, in dry-run": {first: plain().RearmOnReboot().DryRun(true), moments: []moment{
			{0, false, "Exempt DryRun, " + held}, {20, true, ready + ", " + ready}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := story.NewWorld(t, c.first, rule("second", "A").RearmOnReboot().After("first"))
			w.Objects[1].Spec.Conditions = nil
			n := node().Created(second(-7200)).BootID("b1").Condition("Ready", "True", second(-600)).
				Condition("A", "True", second(-600))
			for _, name := range []string{"first", "second"} {
				n.Annotation("nodegate.io/rule-uid-of-"+name, `{"released":"2026-01-02T02:04:05Z","bootID":"b1"}`)
			}
			obj, _, _ := w.Pass(n.Obj(), second(-10))
			if c.restarted {
				w.Restart()
			}
			n = build.WrapNode(obj).BootID("b2")
			for _, m := range c.moments {
				if m.at == 10 && c.later != nil {
					c.later(w)
				}
				if n.Heartbeat("Ready", second(m.at)); m.report {
					n.Heartbeat("A", second(m.at))
				}
				after, _, decisions := w.Pass(n.Obj(), second(m.at))
				got := make([]string, len(decisions))
				for i := range decisions {
					got[i] = string(decisions[i].State) + " " + decisions[i].Reason
				}
				if got := strings.Join(got, ", "); got != m.want {
					t.Errorf("after %d s: %s, want %s: %s", m.at, got, m.want, decisions[1].Message(second(m.at)))
				}
				if at := decisions[1].RecheckAt; strings.HasPrefix(m.want, "Ready") && strings.HasSuffix(m.want, held) &&
					!at.Equal(second(120)) {
					t.Errorf("after %d s: rechecks at %s", m.at, at)
				}
				n = build.WrapNode(after)
			}
		})
	}
}

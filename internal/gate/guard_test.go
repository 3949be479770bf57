// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

// TestTheGuardOfACompletedRuleEnds: the rule ignores the evidence from then on, but not the guard.
func TestTheGuardOfACompletedRuleEnds(t *testing.T) {
	r := rule("r", "A").BootstrapOnly().EvictionGuard(600)
	compiled := ruleset.Compile(r.Obj(), nil, now)
	rec := nodeview.Record{Released: metav1.NewTime(now), GuardedSince: metav1.NewTime(now.Add(-5 * time.Second))}
	n := node().Condition("A", "True", now.Add(-time.Second)).Annotation(compiled.RecordKey(), rec.Encode()).
		Annotation(compiled.MarkerKey(), "{}").Obj()
	out := DecideNode(input(n, r))
	if d := out.Decisions[0]; d.Reason != state.ReasonCompleted || d.Hold.State != guard.HoldActive ||
		!out.RecheckAt.Equal(now.Add(9*time.Second)) {
		t.Errorf("%s, guard %s, looks again at %v", d.Reason, d.Hold.State, out.RecheckAt)
	}
}

// TestAGuardThatEndsOtherwiseThanByRecovery: what is due is evicted before the record goes.
func TestAGuardThatEndsOtherwiseThanByRecovery(t *testing.T) {
	const evicting = corev1.TaintNodeUnreachable
	guarding := func() *build.RuleWrapper { return rule("r", "Ready").Untainted().EvictionGuard(600) }
	lost := scene{at: 11, tells: "lost", want: "Held EvidenceMissing Active", taints: evicting,
		node: func(n *build.NodeWrapper) {
			n.Condition("Ready", "Unknown", second(10)).Taint(evicting, "", corev1.TaintEffectNoExecute)
		}}
	ending := []string{`"guardedSince":"2026-01-02T03:04:15Z"`, `"guardEnded":"2026-01-02T03:04:25Z"`}
	for name, c := range map[string]struct {
		end  scene
		want string // at the end, and when what is due is evicted
	}{
		"deleted": {scene{rule: func(r *build.RuleWrapper) { r.Deleted(second(20)) }, want: "Ending"}, ""},
		"dry-run": {scene{rule: func(r *build.RuleWrapper) { r.DryRun(true) }, want: "Exempt DryRun Ending"},
			"Exempt DryRun"},
		"edited": {scene{rule: func(r *build.RuleWrapper) { r.Spec.EvictionGuard = nil; r.Health("rules") },
			want: "Held EvidenceMissing Ending"}, "Held EvidenceMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			c.end.at, c.end.tells, c.end.taints, c.end.record = 20, "it ends", evicting, ending
			waits := scene{at: 40, tells: "not evicted yet", want: c.end.want, taints: evicting, record: ending, restarted: true}
			tell(t, guarding(), inService(), lost, c.end, waits,
				scene{at: 41, tells: "evicted", evicted: true, want: c.want, taints: evicting})
			untainted := scene{at: 41, tells: "nothing is due", want: c.want,
				node: func(n *build.NodeWrapper) { n.Untaint(evicting) }}
			tell(t, guarding(), inService(), lost, c.end, untainted)
		})
	}
	t.Run("it goes on where the node comes back in time", func(t *testing.T) {
		tell(t, guarding(), inService(), lost,
			scene{at: 20, tells: "relabelled", node: relabel, want: "Ending", taints: evicting, record: ending},
			scene{at: 21, tells: "and back", node: func(n *build.NodeWrapper) { n.Label("pool", "a") },
				want: "Held EvidenceMissing Active", taints: evicting, record: ending[:1]})
	})
	t.Run("a suspended rule keeps it active where the node is relabelled", func(t *testing.T) {
		active := scene{at: 20, tells: "suspended", rule: suspend, want: "Exempt Suspended Active", taints: evicting,
			record: ending[:1], untouched: true}
		relabelled := scene{at: 21, tells: "relabelled", node: relabel, want: "Active", taints: evicting, record: ending[:1],
			untouched: true}
		tell(t, guarding(), inService(), lost, active, relabelled,
			scene{at: 30, tells: "resumed", rule: resume, want: "Ending", taints: evicting})
	})
	t.Run("a relabelled node that recovers is left alone", func(t *testing.T) {
		tell(t, guarding(), inService(), lost,
			scene{at: 20, tells: "relabelled", node: relabel, want: "Ending", taints: evicting, record: ending},
			scene{at: 30, tells: "back, and still tainted", taints: evicting, record: none,
				node: func(n *build.NodeWrapper) { n.Condition("Ready", "True", second(30)) }})
	})
	t.Run("what was reported before a reboot does not end it", func(t *testing.T) {
		r := rule("r", "A").Untainted().EvictionGuard(600).RearmOnReboot()
		tell(t, r, inService().BootID("b1").Condition("A", "True", second(-60)),
			scene{at: 11, tells: "lost", want: "Held EvidenceMissing Active", taints: evicting,
				node: func(n *build.NodeWrapper) {
					is("False", 10)(n.Taint(evicting, "", corev1.TaintEffectNoExecute))
				}},
			scene{at: 20, tells: "rebooted", want: "Held Rearmed Active", taints: evicting, node: func(n *build.NodeWrapper) {
				n.BootID("b2").Condition("Ready", "True", second(19))
			}},
			scene{at: 21, tells: "relabelled", node: relabel, want: "Ending", taints: evicting},
			scene{at: 22, tells: "a late report", node: is("True", 15), want: "Ending", taints: evicting},
			scene{at: 30, tells: "a report since the boot", node: is("True", 30), taints: evicting, record: none})
	})
	t.Run("bootstrap-only, completed while it is active: it outlasts recovery", func(t *testing.T) {
		tell(t, guarding().BootstrapOnly(), node().Created(second(-60)).Condition("Ready", "False", second(-60)).
			Taint(evicting, "", corev1.TaintEffectNoExecute),
			scene{at: 11, tells: "joining", want: "Held EvidenceMissing Active", taints: evicting},
			scene{at: 20, tells: "ready", node: func(n *build.NodeWrapper) { n.Condition("Ready", "True", second(20)) },
				want: "Ready EvidenceHolds Active", taints: evicting},
			scene{at: 29, tells: "completed", want: "Ready BootstrapCompleted Active", taints: evicting},
			scene{at: 30, tells: "calm", node: func(n *build.NodeWrapper) { n.Untaint(evicting) },
				want: "Ready BootstrapCompleted"})
	})
}

// inService is a node that the rule "r" has released.
func inService() *build.NodeWrapper {
	return node().Created(second(-600)).Condition("Ready", "True", second(-60)).
		Annotation("nodegate.io/rule-uid-of-r", `{"rule":"r","released":"2026-01-02T03:04:00Z"}`)
}

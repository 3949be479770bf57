// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	. "github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// agents is a rule that requires DaemonSets, of which there need not be any.
func agents() *build.RuleWrapper {
	return rule("r", "A").RearmOnReboot().MaxUnavailable("1").DaemonSets("kube-system",
		func(q *v1alpha1.DaemonSetsRequirement) { q.MinMatching = new(int32(0)) })
}

// TestSinceWhenANodeIsInService: DaemonSets that are younger do not count, and those that were ready since then count
// while they are replaced.
func TestSinceWhenANodeIsInService(t *testing.T) {
	released := metav1.NewTime(now.Add(-time.Minute))
	claim := func(rec *nodeview.Record) { rec.Taint, rec.Since = "example.com/r=:NoSchedule", metav1.NewTime(now) }
	old := func(n *build.NodeWrapper) { n.Created(now.Add(-2 * time.Hour)) }
	for name, c := range map[string]struct {
		node func(*build.NodeWrapper)
		rec  func(*nodeview.Record)
		want evidence.Service
	}{
		"a new node": {},
		"a released node": {rec: func(rec *nodeview.Record) { rec.Released = released },
			want: evidence.Service{Released: released.Time, Undisrupted: true}},
		"one that is held again": {rec: func(rec *nodeview.Record) { rec.Released = released; claim(rec) },
			want: evidence.Service{Released: released.Time}},
		"one that passes because of a timeout": {
			rec:  func(rec *nodeview.Record) { rec.Released, rec.TimedOut = released, released },
			want: evidence.Service{Released: released.Time}},
		"one that has rebooted": {rec: func(rec *nodeview.Record) { rec.Released, rec.BootID = released, "b1" }},
		"one that rebooted and was not ready since": {
			rec: func(rec *nodeview.Record) {
				rec.Released, rec.BootID, rec.RearmedAt = released, "b2", metav1.NewTime(now)
			}},
		"one from before the rule": {node: old, want: evidence.Service{Released: now.Add(-time.Hour)}},
		"one from before the rule that is held": {node: func(n *build.NodeWrapper) {
			old(n)
			n.Taint("example.com/r", "", corev1.TaintEffectNoSchedule)
		}, rec: claim},
		"a held one": {rec: claim},
	} {
		n := node().BootID("b2")
		compiled := ruleset.Compile(agents().Obj(), nil, now)
		if c.node != nil {
			c.node(n)
		}
		if c.rec != nil {
			rec := nodeview.Record{Rule: "r"}
			c.rec(&rec)
			n.Annotation(compiled.RecordKey(), rec.Encode())
		}
		var got evidence.Service
		in := input(n.Obj(), agents())
		in.Evaluate = func(r *ruleset.Rule, f *evidence.Facts, o readiness.Observed, at time.Time) readiness.Verdict {
			got = f.Service
			return readiness.Evaluate(r, f, o, at)
		}
		DecideNode(in)
		if !got.Released.Equal(c.want.Released) || got.Undisrupted != c.want.Undisrupted {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestTheReleaseThatDaemonSetsCountFrom: with DaemonSets, the record of each released node says when that was, and a
// reboot starts it over.
func TestTheReleaseThatDaemonSetsCountFrom(t *testing.T) {
	node := node().Created(second(-10000)).BootID("b1").Condition("Ready", "True", second(-60)).
		Condition("A", "True", second(-60))
	tell(t, agents(), node,
		scene{at: 1, tells: "seen", want: "Ready EvidenceHolds", record: []string{`"released":"2026-01-02T03:04:06Z"`}},
		scene{at: 2, tells: "still", want: "Ready EvidenceHolds", untouched: true},
		scene{at: 10, tells: "rebooted while no operator ran", restarted: true, asks: true, want: "Held Rearmed",
			node:   func(n *build.NodeWrapper) { n.BootID("b2").Condition("Ready", "True", second(9)) },
			taints: taint, record: []string{`"released":"2026-01-02T03:04:06Z"`}},
		scene{at: 20, tells: "reported", want: "Ready EvidenceHolds",
			node:   func(n *build.NodeWrapper) { n.Heartbeat("A", second(20)) },
			record: []string{`"released":"2026-01-02T03:04:25Z"`}})
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/state"
)

// TestMassFailures has each step say, at a second, how many nodes a cause has, and what is reported then.
func TestMassFailures(t *testing.T) {
	type step struct {
		second, nodes, reported int
		again                   time.Duration
	}
	for name, steps := range map[string][]step{
		"a few nodes are no massFailure": {
			{0, 2, 0, 0}, {60, 2, 0, 0},
		},
		"many nodes are reported once, when no more follow": {
			{0, 1, 0, 0}, {2, 400, 0, 2 * time.Second}, {3, 1000, 0, 2 * time.Second}, {4, 1000, 0, time.Second},
			{5, 1000, 1000, 0}, {11, 1000, 0, 0}, {600, 1000, 0, 0},
		},
		"more and more nodes are reported after ten seconds": {
			{0, 10, 0, 2 * time.Second}, {1, 20, 0, 2 * time.Second}, {2, 30, 0, 2 * time.Second}, {3, 40, 0, 2 * time.Second},
			{4, 50, 0, 2 * time.Second}, {5, 60, 0, 2 * time.Second}, {6, 70, 0, 2 * time.Second}, {7, 80, 0, 2 * time.Second},
			{8, 81, 0, 2 * time.Second}, {9, 82, 0, time.Second}, {10, 90, 90, 0},
		},
		"one or two that follow later are not reported, three are": {
			{0, 10, 0, 2 * time.Second}, {2, 10, 10, 0}, {60, 12, 0, 0}, {120, 13, 0, 2 * time.Second}, {122, 13, 13, 0},
		},
		"it is news again after it was over": {
			{0, 10, 0, 2 * time.Second}, {2, 10, 10, 0}, {60, 0, 0, 0}, {120, 5, 0, 2 * time.Second}, {122, 5, 5, 0},
		},
		"it is news again after most were ready": {
			{0, 10, 0, 2 * time.Second}, {2, 10, 10, 0}, {60, 2, 0, 0}, {120, 10, 0, 2 * time.Second}, {122, 10, 10, 0},
		},
		"it is reported although the clock is set back": {
			{3600, 10, 0, 2 * time.Second}, {0, 10, 0, 2 * time.Second}, {2, 10, 10, 0},
		},
		"it passes before it is reported": {
			{0, 10, 0, 2 * time.Second}, {1, 0, 0, 0}, {10, 0, 0, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			o := know(nil)
			for _, s := range steps {
				var causes, want []fleet.Cause
				if s.nodes > 0 {
					causes = []fleet.Cause{{What: "condition a is False", Count: s.nodes}}
				}
				if s.reported > 0 {
					want = []fleet.Cause{{What: "condition a is False", Count: s.reported}}
				}
				news, again := o.observe(causes, start.Add(time.Duration(s.second)*time.Second))
				if diff := cmp.Diff(want, news); diff != "" || again != s.again {
					t.Fatalf("at second %d: again %s, want %s; reported (-want +got):\n%s", s.second, again, s.again, diff)
				}
			}
			if n := len(o); n > 1 {
				t.Errorf("%d causes are remembered", n)
			}
		})
	}
}

func TestMassFailuresStartWithWhatThereIs(t *testing.T) {
	causes := []fleet.Cause{{What: "condition a is False", Count: 100}}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := know(causes)
	for range 3 {
		now = now.Add(time.Minute)
		if news, again := o.observe(causes, now); news != nil || again != 0 {
			t.Errorf("reported %v, again %s", news, again)
		}
	}
}

var _ = Describe("Evidence that says less than it seems to", func() {
	It("is reported once, and stands in the condition Ready for as long as it is so", func(ctx context.Context) {
		d := newDesk(ctx, network(), node("a"))
		look := func(warning string) {
			d.record(0, fleet.Outcome{State: v1alpha1.NodeStateReady, Reason: state.ReasonEvidenceHolds, Warning: warning})
			d.step(time.Minute)
			Expect(d.reconcile()).To(BeZero())
			d.takeOver()
		}
		look("no probe")
		Expect(d.events()).To(ConsistOf("Warning WeakEvidence no probe"))
		Expect(d.condition(v1alpha1.ConditionReady).Message).To(Equal("The rule is valid and in force. Warning: no probe"))
		look("no probe")
		look("")
		Expect(d.events()).To(BeEmpty())
		Expect(d.condition(v1alpha1.ConditionReady).Message).To(Equal("The rule is valid and in force"))
	})

	DescribeTable("is reported once, however often the status changes", func(ctx context.Context, dryRun bool,
		warning string) {
		d := newDesk(ctx, network().DryRun(dryRun), node("a"))
		for _, state := range []v1alpha1.NodeState{v1alpha1.NodeStateExempt, v1alpha1.NodeStateReady} {
			d.record(0, fleet.Outcome{State: state, Warning: warning})
			d.step(time.Minute)
			d.reconcile()
			d.takeOver()
		}
		Expect(d.events()).To(ConsistOf("Warning WeakEvidence " + warning))
		Expect(d.condition(v1alpha1.ConditionReady).Message).To(ContainSubstring(". Warning: no probe"))
	},
		Entry("in dry-run", true, "no probe"),
		Entry("although it is too long for the status", false, strings.Repeat("no probe ", 100)),
	)
})

var _ = Describe("Nodes in service that turn unready together", func() {
	It("are one event on the rule", func(ctx context.Context) {
		d := newDesk(ctx, network(), node("a"), node("b"), node("c"), node("d"))
		unready := func(i int) {
			standing := nodeview.StateOf(d.compiled, d.nodes[i], d.clock.Now())
			standing.Released = true
			d.Fleet.Record(d.nodes[i], []fleet.Entry{{
				Rule: d.compiled, Current: &standing,
				Outcome: fleet.Outcome{State: v1alpha1.NodeStateHeld, Reason: state.ReasonEvidenceMissing},
				Missing: fleet.Missing{Results: []v1alpha1.ConditionEvaluationResult{
					{Type: "example.com/Ready", CurrentStatus: "Unknown", RequiredStatus: "True"}}},
			}}, d.clock.Now())
		}
		for i := range d.nodes {
			d.saw(i, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
		}
		d.reconcile()
		Expect(d.events()).To(BeEmpty())

		d.step(time.Minute)
		for i := range 4 {
			unready(i)
		}
		Expect(d.reconcile().RequeueAfter).To(Equal(settled))
		Expect(d.events()).To(BeEmpty(), "more may follow")
		d.step(settled)
		Expect(d.reconcile()).To(BeZero())
		Expect(d.events()).To(ConsistOf(
			"Warning NodesTurnedUnready 4 nodes in service are not ready for the same cause: condition example.com/Ready is " +
				"Unknown: a, b, c, d"))
		d.step(time.Hour)
		Expect(d.reconcile()).To(BeZero())
		Expect(d.events()).To(BeEmpty())
	})

	It("are not the nodes that joined while the rule was suspended", func(ctx context.Context) {
		d := newDesk(ctx, network().Suspend(true), node("a"), node("b"), node("c"))
		look := func() {
			for i := range d.nodes {
				standing := nodeview.StateOf(d.compiled, d.nodes[i], d.clock.Now())
				d.Fleet.Record(d.nodes[i], []fleet.Entry{{
					Rule: d.compiled, Current: &standing,
					Outcome: fleet.Outcome{State: v1alpha1.NodeStateExempt, Reason: state.ReasonUnreadyWindow},
					Missing: fleet.Missing{Results: []v1alpha1.ConditionEvaluationResult{
						{Type: "example.com/Ready", CurrentStatus: "Unknown", RequiredStatus: "True"}}},
				}}, d.clock.Now())
				d.reconcile()
			}
			d.step(time.Minute)
			d.reconcile()
		}
		look()
		d.read().Spec.Suspend = false
		Expect(server.Client.Update(ctx, d.rule)).To(Succeed())
		d.takeOver()
		look()
		look()
		Expect(d.events()).To(BeEmpty())
	})
})

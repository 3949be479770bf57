// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/replace"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
)

// failure says why a write failed. It concerns all rules, or only those whose published condition was to change. Then
// a rule with a taint has done the more important part: its state is not Failed.
type failure struct {
	reason, message string
	publishers      bool
	rejected        bool // certainly nothing was written
}

// record stores the decisions about the node in the fleet.
func (r *Reconciler) record(p *pass, node *corev1.Node, outcome taints.Outcome, failed *failure) {
	entries := make([]fleet.Entry, 0, len(p.decisions))
	for i := range p.decisions {
		d, v := &p.decisions[i], &p.decisions[i].Verdict
		if d.State == "" && failed == nil && !nodeview.Leftover(d.Rule, node) && !nodeview.Completed(d.Rule, node) {
			continue
		}
		e := fleet.Entry{
			Rule: d.Rule, Current: &d.Was, Observed: v.Observed, HeartbeatCounts: v.HeartbeatCounts,
			// When this turns false, the rule takes its mark back.
			Expired: d.Expired && failed == nil && replace.Replaceable(d.Rule, node, p.now),
			NoRoom:  d.Reason == state.ReasonFull,
			Outcome: fleet.Outcome{
				State: d.State, Reason: d.Reason, Present: nodeview.Find(node, d.Rule.Taint) != nil,
				Shared: outcome.Shared[d.Rule.UID], Displaced: cmp.Or(d.Unpublished, d.Unprobed),
				Published: publishedStatus(d, node), Unmarked: d.Unmarked, WouldClaim: d.WouldClaim,
				WouldRelease: d.WouldRelease, Risky: d.WouldClaim && v.NeverAppeared, Hold: d.Hold.State,
			},
		}
		if node != p.node {
			current := nodeview.StateOf(d.Rule, node, p.now)
			e.Current = &current
		}
		if d.State != "" {
			e.Warning = v.Warning()
		}
		if outcome.Full[d.Rule.UID] { // when another client removes annotations, the node has room
			e.Warning, e.HeartbeatCounts = fleet.AnnotationsFull, true
		}
		if d.State != "" && d.State != v1alpha1.NodeStateReady {
			e.Results, e.Requirements = results(v.Results)
		}
		p.failed(&e, failed)
		entries = append(entries, e)
	}
	r.Fleet.Record(node, entries, r.Clock.Now()) // a write may have taken long
}

// Expired reports whether a node waits for its replacement under a rule by the evidence that there is now. The fleet
// knows what there was when the node was last reconciled. A node whose pods cannot be listed does not, nor does one of
// which the rules change meanwhile.
func (r *Reconciler) Expired(ctx context.Context, node *corev1.Node, rule *ruleset.Rule) bool {
	look := r.Fleet.Look(node)
	p := &pass{node: node, set: look.Rules, look: look, now: r.Clock.Now()}
	if !r.gather(p) {
		return false
	}
	decisions := gate.DecideNode(r.input(ctx, p)).Decisions
	i := slices.IndexFunc(decisions, func(d state.Decision) bool { return d.Rule == rule })
	return i >= 0 && decisions[i].Expired && !decisions[i].Verdict.Unknown
}

// failed stores in an entry that a write failed which concerns the entry's rule.
func (p *pass) failed(e *fleet.Entry, why *failure) {
	if why == nil {
		return
	}
	e.Unwritten = why.rejected
	if why.publishers {
		if !p.publishes(e.Rule) {
			return
		}
		if e.PublishProblem = why.message; e.Rule.Taint != nil {
			return
		}
	}
	e.State, e.Reason, e.Message = v1alpha1.NodeStateFailed, why.reason, why.message
}

func results(of []evidence.Result) (
	conditions []v1alpha1.ConditionEvaluationResult, requirements []v1alpha1.RequirementEvaluationResult,
) {
	for i := range of {
		res := &of[i]
		if res.Type == "" {
			requirements = append(requirements, v1alpha1.RequirementEvaluationResult{
				Name: res.Name, Satisfied: res.Satisfied, Message: res.Message(),
			})
			continue
		}
		conditions = append(conditions, v1alpha1.ConditionEvaluationResult{
			Type: res.Type, CurrentStatus: res.Status, RequiredStatus: res.Required, DefaultStatus: res.Default(),
		})
	}
	return conditions, requirements
}

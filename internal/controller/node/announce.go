// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/eventnote"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
)

// Reasons and actions of events on nodes. The first three are the incumbent controller's.
const (
	reasonTaintAdded         = "TaintAdded"
	reasonTaintRemoved       = "TaintRemoved"
	reasonTaintAdopted       = "TaintAdopted"
	reasonBootstrapCompleted = "BootstrapCompleted"
	reasonReadinessTimedOut  = "ReadinessTimedOut"
	reasonNodeRearmed        = "NodeRearmed"
	reasonPodsGuarded        = "PodsGuarded"
	reasonGuardEnded         = "GuardEnded"
	reasonGuardStoodDown     = "GuardStoodDown"
	reasonInvalidOverride    = "InvalidOverride"

	actionAddTaint    = "AddTaint"
	actionRemoveTaint = "RemoveTaint"
	actionAdoptTaint  = "AdoptTaint"
	actionComplete    = "CompleteBootstrap"
	actionTimeOut     = "TimeOut"
	actionRearm       = "RearmNode"
	actionGuard       = "GuardPods"
	actionEndGuard    = "EndGuard"
	actionStandDown   = "StandDown"
	actionOverride    = "OverrideNode"
)

// announce tells what an accepted patch has done: as events on the node, in the log and in the metrics.
func (r *Reconciler) announce(ctx context.Context, p *pass, written *corev1.Node, outcome taints.Outcome) {
	logger := log.FromContext(ctx)
	for i := range outcome.Changes {
		c := &outcome.Changes[i]
		rule := ""
		if c.Rule != nil {
			rule = c.Rule.Name
		}
		logger.Info("Changed node", "operation", c.Operation, "rule", rule, "taint", c.Taint.ToString())
		r.announceChange(p, written, c, rule)
		r.measure(p, c, rule)
		r.Escapes.late(c, p.node.Name)
	}
}

func (r *Reconciler) announceChange(p *pass, node *corev1.Node, c *taints.Change, rule string) {
	taint := c.Taint.ToString()
	switch c.Operation {
	case taints.Added:
		r.eventf(node, c.Rule, corev1.EventTypeNormal, reasonTaintAdded, actionAddTaint,
			"Added taint %s for rule %s: %s", taint, rule, r.why(p, c))
	case taints.Removed:
		if c.Rule == nil {
			r.eventf(node, nil, corev1.EventTypeNormal, reasonTaintRemoved, actionRemoveTaint,
				"Removed taint %s: the rule that put it there is gone", taint)
			return
		}
		r.eventf(node, c.Rule, corev1.EventTypeNormal, reasonTaintRemoved, actionRemoveTaint,
			"Removed taint %s for rule %s: %s", taint, rule, r.why(p, c))
	case taints.Adopted:
		r.eventf(node, c.Rule, corev1.EventTypeNormal, reasonTaintAdopted, actionAdoptTaint,
			"Rule %s manages taint %s from now on, which was there already: %s", rule, taint, r.why(p, c))
	case taints.Completed:
		r.eventf(node, c.Rule, corev1.EventTypeNormal, reasonBootstrapCompleted, actionComplete,
			"The node has completed bootstrap-only rule %s, which leaves it alone from now on", rule)
	case taints.TimedOut:
		r.announceTimeout(p, node, c, rule)
	case taints.Rearmed:
		r.eventf(node, c.Rule, corev1.EventTypeNormal, reasonNodeRearmed, actionRearm,
			"The node has rebooted: rule %s starts it over", rule)
	case taints.Guarded:
		r.eventf(node, c.Rule, corev1.EventTypeWarning, reasonPodsGuarded, actionGuard,
			"Rule %s guards the node's pods from eviction until %s, unless it holds again before: %s", rule,
			c.Decision.Hold.Until.UTC().Format(time.RFC3339), p.missing(c.Rule))
	case taints.GuardEnded:
		r.eventf(node, c.Rule, corev1.EventTypeWarning, reasonGuardEnded, actionEndGuard,
			"Rule %s guards the node's pods no more, and what is due is evicted (%s): %s", rule, r.whyGuardEnded(c), p.missing(c.Rule))
	case taints.Unguarded:
		r.eventf(node, c.Rule, corev1.EventTypeNormal, reasonGuardStoodDown, actionStandDown,
			"Rule %s does not guard the node's pods any more: %s", rule, r.why(p, c))
	}
}

func (r *Reconciler) whyGuardEnded(c *taints.Change) string {
	if c.Decision.Reason == gate.ReasonOverrideRelease {
		return "the annotation " + v1alpha1.OverrideAnnotation + " says so"
	}
	return "maxHoldSeconds have passed"
}

func (r *Reconciler) announceTimeout(p *pass, node *corev1.Node, c *taints.Change, rule string) {
	clock := "not ready in time"
	if c.Decision.NeverAppeared {
		clock = "evidence has not appeared in time"
	}
	then := "it stays held"
	if c.Rule.Spec.Timeout.Releases() {
		then = "it is released all the same"
	}
	r.eventf(node, c.Rule, corev1.EventTypeWarning, reasonReadinessTimedOut, actionTimeOut,
		"Rule %s: %s, %s: %s", rule, clock, then, p.missing(c.Rule))
}

// why is the reason of a change, in words.
func (r *Reconciler) why(p *pass, c *taints.Change) string {
	d := c.Decision
	switch {
	case c.Rule.Mode == ruleset.Deleting:
		return "the rule is being deleted"
	case !d.Was.Matches:
		return "the rule does not select the node any more"
	case c.Rule.Mode == ruleset.Suspended && c.Operation == taints.Unguarded:
		return "the rule is suspended"
	case c.Rule.Mode == ruleset.DryRun:
		return "the rule is in dry-run"
	case d.Reason == gate.ReasonOverrideHold, d.Reason == gate.ReasonOverrideRelease:
		return "the annotation " + v1alpha1.OverrideAnnotation + " says so"
	case d.Reason == gate.ReasonTimedOut:
		return "its timeout has ended"
	case d.Reason == gate.ReasonCompleted:
		return "the node has completed it"
	case d.Reason == gate.ReasonReadyWindow:
		return "it has not been ready for readySeconds yet"
	case d.Reason == gate.ReasonMinimumHold:
		return "the node is younger than minimumHoldSeconds"
	case c.Operation == taints.Removed && d.Claim:
		return "the rule asks for another taint now"
	case d.State == v1alpha1.NodeStateReady:
		return "all that it requires holds"
	}
	return p.missing(c.Rule)
}

func (p *pass) missing(rule *ruleset.Rule) string {
	for i := range p.decisions {
		if p.decisions[i].Rule == rule && !p.verdicts[i].Ready {
			return p.verdicts[i].Blocking()
		}
	}
	return "all that it requires holds"
}

func (r *Reconciler) eventf(node *corev1.Node, rule *ruleset.Rule, eventType, reason, action, format string, args ...any) {
	var related runtime.Object
	if rule != nil {
		related = eventnote.Rule(rule)
	}
	r.Recorder.Eventf(eventnote.Node(node), related, eventType, reason, action, "%s", eventnote.Format(format, args...))
}

func (r *Reconciler) measure(p *pass, c *taints.Change, rule string) {
	switch c.Operation {
	case taints.Added, taints.Removed, taints.Adopted:
		taintOperations.WithLabelValues(rule, string(c.Operation)).Inc()
		for i := range p.decisions {
			if v := p.verdicts[i]; p.decisions[i].Rule == c.Rule && !v.Since.IsZero() && c.Operation != taints.Adopted {
				reconciliationLatency.WithLabelValues(rule, string(c.Operation)).Observe(max(0, p.now.Sub(v.Since).Seconds()))
			}
		}
	case taints.Completed:
		bootstrapCompleted.WithLabelValues(rule).Inc()
		bootstrapDuration.WithLabelValues(rule).Observe(max(0, p.now.Sub(p.node.CreationTimestamp.Time).Round(time.Second).Seconds()))
	case taints.TimedOut:
		timeouts.WithLabelValues(rule).Inc()
	case taints.Rearmed:
		rearmed.WithLabelValues(rule).Inc()
	}
}

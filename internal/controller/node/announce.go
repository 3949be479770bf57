// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
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
	reasonInvalidOverride    = "InvalidOverride"
	reasonTaintLeft          = "TaintLeft"
	reasonAnnotationsFull    = "AnnotationsFull"

	actionAddTaint    = "AddTaint"
	actionRemoveTaint = "RemoveTaint"
	actionAdoptTaint  = "AdoptTaint"
	actionComplete    = "CompleteBootstrap"
	actionTimeOut     = "TimeOut"
	actionRearm       = "RearmNode"
	actionOverride    = "OverrideNode"
	actionRecord      = "RecordDecision"
)

// logged is what the log says of one change.
type logged struct {
	Operation taints.Operation `json:"operation"`
	Rule      string           `json:"rule"`
	Taint     string           `json:"taint"`
}

// note is what an event says of one change: what happened, and why.
type note struct{ eventType, reason, action, what, why string }

// announce reports what an accepted patch has done: in the metrics, in one line of the log, and as events on the node,
// at most one for each reason, which names all its rules and taints.
func (r *Reconciler) announce(ctx context.Context, p *pass, written *corev1.Node, outcome taints.Outcome) {
	var reasons []string
	changes := make([]logged, 0, len(outcome.Changes))
	notes, about := map[string][]note{}, map[string]*ruleset.Rule{}
	for i := range outcome.Changes {
		c := &outcome.Changes[i]
		rule := ""
		if c.Rule != nil {
			rule = c.Rule.Name
		}
		changes = append(changes, logged{c.Operation, rule, c.Taint.ToString()})
		n := noteOf(c, rule)
		if notes[n.reason] == nil {
			reasons, about[n.reason] = append(reasons, n.reason), c.Rule
		}
		notes[n.reason] = append(notes[n.reason], n)
		r.measure(p, c, rule)
		r.Escapes.added(c, p.node.Name)
	}
	if len(changes) > 0 {
		log.FromContext(ctx).Info("Changed node", "changes", changes)
	}
	for _, reason := range reasons {
		n := notes[reason][0]
		r.eventf(written, about[reason], n.eventType, reason, n.action, "%s", joined(notes[reason]))
	}
}

// reportLeft reports the taints that stay although a record said that they were a rule's.
func (r *Reconciler) reportLeft(ctx context.Context, written *corev1.Node, left []corev1.Taint) {
	if len(left) == 0 {
		return
	}
	var names []string
	for i := range left {
		names = append(names, left[i].Key+":"+string(left[i].Effect))
	}
	log.FromContext(ctx).Info("Did not remove taints that only a doubtful record names", "taints", names)
	r.eventf(written, nil, corev1.EventTypeWarning, reasonTaintLeft, actionRemoveTaint, "The operator does not remove "+
		"taints that it knows only from a record, because another account may have written that record. "+
		"To remove them: kubectl taint node %s %s-", written.Name, strings.Join(names, "- "))
}

// reportFull reports that the node has no room for what the operator must remember.
func (r *Reconciler) reportFull(p *pass, written *corev1.Node, outcome taints.Outcome) {
	var rules []string
	for i := range p.decisions {
		if rule := p.decisions[i].Rule; outcome.Full[rule.UID] {
			rules = append(rules, rule.Name)
		}
	}
	if len(rules) > 0 {
		r.eventf(written, nil, corev1.EventTypeWarning, reasonAnnotationsFull, actionRecord, "The node's annotations have "+
			"no room for the operator's records, which are shortened or missing. Remove other annotations. Rules: %s",
			strings.Join(rules, ", "))
	}
}

// joined says what happened to all rules before it says why: a note that is too long is cut at its end.
func joined(notes []note) string {
	var what, why []string
	for _, n := range notes {
		what = append(what, n.what)
		if n.why != "" && !slices.Contains(why, n.why) {
			why = append(why, n.why)
		}
	}
	text := strings.Join(what, "; ")
	if len(why) > 0 {
		text += ": " + strings.Join(why, "; ")
	}
	return text
}

func noteOf(c *taints.Change, rule string) note {
	const normal, warning = corev1.EventTypeNormal, corev1.EventTypeWarning
	taint := c.Taint.ToString()
	switch c.Operation {
	case taints.Added:
		return note{normal, reasonTaintAdded, actionAddTaint, fmt.Sprintf("Added taint %s for rule %s", taint, rule),
			reasonOf(c)}
	case taints.Removed:
		if c.Rule == nil {
			return note{normal, reasonTaintRemoved, actionRemoveTaint, "Removed taint " + taint,
				"the rule that added it was deleted"}
		}
		return note{normal, reasonTaintRemoved, actionRemoveTaint,
			fmt.Sprintf("Removed taint %s for rule %s", taint, rule), reasonOf(c)}
	case taints.Adopted:
		return note{normal, reasonTaintAdopted, actionAdoptTaint,
			fmt.Sprintf("Rule %s now manages taint %s, which was already on the node", rule, taint), reasonOf(c)}
	case taints.Completed:
		return note{normal, reasonBootstrapCompleted, actionComplete,
			fmt.Sprintf("The node completed bootstrap-only rule %s, which ignores the node from now on", rule), ""}
	case taints.TimedOut:
		return timeoutNote(c, rule)
	case taints.Rearmed:
		return note{normal, reasonNodeRearmed, actionRearm, fmt.Sprintf("The node rebooted: rule %s treats it as a new node",
			rule), ""}
	}
	d, ended := c.Decision, ""
	if c.Rule.Mode != ruleset.Enforced || !d.Was.Matches || d.Reason == state.ReasonOverrideRelease {
		ended = reasonOf(c)
	}
	e := d.Hold.Event(c.Rule, ended)
	if e.Good {
		return note{normal, e.Reason, e.Action, e.Text, reasonOf(c)}
	}
	return note{warning, e.Reason, e.Action, e.Text, d.Missing()}
}

func timeoutNote(c *taints.Change, rule string) note {
	clock := "not ready in time"
	if c.Decision.NeverAppeared {
		clock = "evidence was not reported in time"
	}
	return note{corev1.EventTypeWarning, reasonReadinessTimedOut, actionTimeOut,
		fmt.Sprintf("Rule %s: %s, it %s", rule, clock, state.AfterTimeout(c.Rule.Spec.Timeout)), c.Decision.Missing()}
}

func reasonOf(c *taints.Change) string {
	return c.Decision.Changed(c.Operation == taints.Removed && c.Decision.Claim)
}

func (r *Reconciler) eventf(node *corev1.Node, rule *ruleset.Rule, eventType, reason, action, format string,
	args ...any) {
	var related runtime.Object
	if rule != nil {
		related = rule.Reference()
	}
	r.Recorder.Eventf(node, related, eventType, reason, action, format, args...)
}

func (r *Reconciler) measure(p *pass, c *taints.Change, rule string) {
	switch c.Operation {
	case taints.Added, taints.Removed:
		taintOperations.WithLabelValues(rule, taintOperation[c.Operation]).Inc()
		for i := range p.decisions {
			if v := &p.decisions[i].Verdict; p.decisions[i].Rule == c.Rule && !v.Changed.IsZero() {
				reconciliationLatency.WithLabelValues(rule, latencyOperation[c.Operation]).
					Observe(max(0, p.now.Sub(v.Changed).Seconds()))
			}
		}
	case taints.Adopted:
		adoptedTaints.WithLabelValues(rule).Inc()
	case taints.Completed:
		bootstrapCompleted.WithLabelValues(rule).Inc()
		bootstrapDuration.WithLabelValues(rule).Observe(max(0,
			p.now.Sub(p.node.CreationTimestamp.Time).Round(time.Second).Seconds()))
		measureHold(p, c, rule)
	case taints.TimedOut:
		timeouts.WithLabelValues(rule).Inc()
	case taints.Rearmed:
		rearmed.WithLabelValues(rule).Inc()
	}
}

// measureHold measures for how long a bootstrap-only rule has held a node, as the incumbent controller will: from the
// taint, or from when it was seen if it was on the node already.
func measureHold(p *pass, c *taints.Change, rule string) {
	was, origin := &c.Decision.Was, "controller"
	since := was.Record.Since.Time
	switch {
	case was.Record.Adopted:
		origin = "adopted"
	case was.Claimed && since.IsZero(): // made by an admission policy, at the node's creation
		since = p.node.CreationTimestamp.Time
	case was.Claimed:
	case was.Present && !was.Shared:
		origin, since = "adopted", p.now
	default:
		return
	}
	bootstrapHold.WithLabelValues(rule, origin).Observe(max(0, p.now.Sub(since).Seconds()))
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
)

// What the rule is about to do with a taint, with the words for it.
var changes = []struct {
	operation  taints.Operation
	name, verb string
}{{taints.Added, "Add", "add"}, {taints.Removed, "Remove", "remove"}, {taints.Adopted, "Adopt", "adopt"}}

// taint explains the rule's taint on the node: who added it, and what the operator is about to do with it.
func (x *explainer) taint(unread bool) *report.Taint {
	want := wanted(x.d)
	if want == nil {
		return nil
	}
	t := &report.Taint{Taint: nodeview.FormatTaint(*want), Since: report.Time(x.d.Was.Record.Since.Time)}
	sharers := x.sharers()
	if on := nodeview.Find(x.node, want); on != nil {
		t.Taint, t.Present, t.By = nodeview.FormatTaint(*on), true, x.by(on, sharers)
	}
	t.Message = x.origin(t, sharers)
	for _, c := range changes {
		if !unread && t.Change == "" && x.all.does(x.d.Rule, c.operation) {
			t.Change = c.name
			t.Message += fmt.Sprintf("; the rule %s %s it", soon(x.Operator, x.unreported()), c.verb)
		}
	}
	if t.By == report.ByForeign && t.Change == "" {
		t.Message += "; the rule does not manage it"
	}
	return t
}

// wanted returns the taint of a decision's rule, or the one that the rule claimed before it was changed.
func wanted(d *state.Decision) *corev1.Taint {
	if claimed, claims := d.Was.Record.Claim(); claims && (d.Rule.Taint == nil || !d.Was.Matches) {
		return &claimed
	}
	return d.Rule.Taint
}

// Holds reports whether the node has the taint of the rule of a decision, and the rule manages or shares it.
func (d *Decided) Holds(i int, node *corev1.Node) bool {
	of := &d.Decisions[i]
	want := wanted(of)
	if want == nil || nodeview.Find(node, want) == nil {
		return false
	}
	if of.Was.Shared {
		return of.State == v1alpha1.NodeStateHeld
	}
	return of.Was.Claimed
}

// origin tells whether a taint is on the node, and who added it.
func (x *explainer) origin(t *report.Taint, sharers []string) string {
	since := ""
	if t.Since != nil {
		since = ", managed by this rule for " + report.Age(x.Now, t.Since.Time)
	}
	switch {
	case !t.Present && x.d.Was.Claimed:
		return "was removed, but not by the operator"
	case !t.Present:
		return "is not on the node"
	case t.By == report.ByRule && t.Since == nil:
		return "is on the node: added by this rule when the node was created"
	case t.By == report.ByRule:
		return "is on the node: added by this rule " + report.Age(x.Now, t.Since.Time) + " ago"
	case t.By == report.ByOther, t.By == report.ByForeign:
		return "is on the node: not added by a rule" + since
	case t.By == report.ByOtherRule:
		return "is on the node: added by rule " + strings.Join(sharers, ", ") + ", which has the same taint"
	}
	return "is on the node" + since
}

// by returns who added a taint.
func (x *explainer) by(on *corev1.Taint, sharers []string) string {
	was := &x.d.Was
	switch {
	case was.Shared:
		return report.ByOtherRule
	case !was.Claimed:
		return report.ByForeign
	}
	claimed, claims := was.Record.Claim()
	switch {
	case len(sharers) > 0:
		return report.ByUnknown
	case was.Record.Adopted, claims && claimed.Value != on.Value: // the value is not the rule's
		return report.ByOther
	}
	return report.ByRule
}

// sharers returns the other rules that claim the same taint on the node.
func (x *explainer) sharers() []string {
	var out []string
	for i := range x.all.Decisions {
		o := &x.all.Decisions[i]
		if o.Rule != x.d.Rule && o.Was.Claimed && same(o.Rule.Taint, x.d.Rule.Taint) {
			out = append(out, o.Rule.Name)
		}
	}
	return out
}

// same reports whether two taints have the same key and effect.
func same(a, b *corev1.Taint) bool { return a != nil && b != nil && a.MatchTaint(b) }

// otherTaints returns the taints that belong to no rule that concerns the node.
func otherTaints(node *corev1.Node, rules *ruleset.Set, decisions []state.Decision) []report.OtherTaint {
	var out []report.OtherTaint
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		ours := slices.ContainsFunc(decisions, func(d state.Decision) bool {
			claimed, claims := d.Was.Record.Claim()
			return same(d.Rule.Taint, t) || claims && same(&claimed, t)
		})
		if !ours {
			out = append(out, report.OtherTaint{Taint: t.ToString(), By: usually(rules, t)})
		}
	}
	return out
}

// usually returns who usually sets a taint.
func usually(rules *ruleset.Set, t *corev1.Taint) string {
	for _, known := range []struct{ prefix, by string }{
		{corev1.TaintNodeUnschedulable, "the node is cordoned"},
		{corev1.TaintNodeNotReady, "Kubernetes: its condition Ready is not True"},
		{corev1.TaintNodeUnreachable, "Kubernetes: its condition Ready is not True"},
		{"node.kubernetes.io/", "Kubernetes: a condition of the node"},
		{"node.cloudprovider.kubernetes.io/", "the cloud provider"},
		{"node-role.kubernetes.io/", "the node's role"},
	} {
		if strings.HasPrefix(t.Key, known.prefix) {
			return known.by
		}
	}
	for _, r := range rules.All() {
		if same(r.Taint, t) {
			return fmt.Sprintf("rule %s has it, but does not select this node: the operator does not remove it", r.Name)
		}
	}
	return "not a rule"
}

// notSelected returns the rules that do not select the node, and why.
func notSelected(node *corev1.Node, rules *ruleset.Set) []report.NotSelected {
	var out []report.NotSelected
	for _, r := range rules.All() {
		if !r.Matches(node.Labels) {
			out = append(out, report.NotSelected{Rule: r.Name, Why: whyNot(r, node.Labels)})
		}
	}
	slices.SortFunc(out, func(a, b report.NotSelected) int { return cmp.Compare(a.Rule, b.Rule) })
	return out
}

func whyNot(r *ruleset.Rule, have labels.Set) string {
	requirements, selectable := r.Selector.Requirements()
	if !selectable {
		return "its nodeSelector is invalid and selects no node"
	}
	for i := range requirements {
		q := &requirements[i]
		switch {
		case q.Matches(have):
		case have.Has(q.Key()):
			return fmt.Sprintf("requires %s, but the label is %q", q, have.Get(q.Key()))
		default:
			return fmt.Sprintf("requires %s, but the node has no such label", q)
		}
	}
	return ""
}

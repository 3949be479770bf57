// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
)

// What the operator is about to do with a taint.
const (
	changeAdd    = "Add"
	changeRemove = "Remove"
	changeAdopt  = "Adopt"
)

// taint is the rule's taint on the node: which, who put it there, and what becomes of it.
func (x *explainer) taint(unread bool) *report.Taint {
	want := x.d.Rule.Taint
	if claimed, err := gate.ParseTaint(x.d.Was.Record.Taint); err == nil && (want == nil || !x.d.Was.Matches) {
		want = &claimed // of a rule that has changed since
	}
	if want == nil {
		return nil
	}
	on := gate.Find(x.in.Node, want)
	t := &report.Taint{Taint: gate.FormatTaint(*want), Present: on != nil, Since: report.Time(x.d.Was.Record.Since.Time)}
	if on != nil {
		t.Taint = gate.FormatTaint(*on)
		t.By = x.by(on)
	}
	if !unread {
		t.Change = x.change()
	}
	t.Message = x.taintMessage(t)
	return t
}

// by is who put a taint there.
func (x *explainer) by(on *corev1.Taint) string {
	was := &x.d.Was
	switch {
	case was.Shared:
		return report.ByOtherRule
	case !was.Claimed:
		return report.ByStranger
	}
	if told := x.in.Told(x.d.Rule, *on); told != "" {
		return told
	}
	claimed, err := gate.ParseTaint(was.Record.Taint)
	switch {
	case err == nil && claimed.Value != on.Value && len(x.sharers()) == 0:
		return report.ByOther // the value is not the rule's
	case was.Record.Since.IsZero():
		return report.ByRule // by admission, in the request that created the node
	}
	return report.ByUnknown
}

// sharers are the other rules that claim the same taint.
func (x *explainer) sharers() []string {
	var out []string
	for _, o := range x.in.Rules.All() {
		if o == x.d.Rule || o.Taint == nil || x.d.Rule.Taint == nil || o.Taint.Key != x.d.Rule.Taint.Key || o.Taint.Effect != x.d.Rule.Taint.Effect {
			continue
		}
		if s := gate.StateOf(o, x.in.Node, x.in.Now); s.Claimed {
			out = append(out, o.Name)
		}
	}
	return out
}

// change is what the operator's next patch does.
func (x *explainer) change() string {
	for i := range x.plan.Changes {
		c := &x.plan.Changes[i]
		if c.Rule != x.d.Rule {
			continue
		}
		switch c.Operation {
		case taints.Added:
			return changeAdd
		case taints.Removed:
			return changeRemove
		case taints.Adopted:
			return changeAdopt
		}
	}
	return ""
}

func (x *explainer) taintMessage(t *report.Taint) string {
	since := ""
	if t.Since != nil {
		since = ", and this rule's since " + age(x.in.Now, t.Since.Time) + " ago"
	}
	var text string
	switch {
	case !t.Present && x.d.Was.Claimed:
		text = "somebody has taken it off"
	case !t.Present:
		text = "is not on the node"
	case t.By == report.ByRule && t.Since == nil:
		text = "is on: put there in the request that created the node"
	case t.By == report.ByRule:
		text = "is on: put there by this rule " + age(x.in.Now, t.Since.Time) + " ago"
	case t.By == report.ByOther:
		text = "is on: put there by somebody else" + since
	case t.By == report.ByOtherRule:
		text = "is on: put there by rule " + strings.Join(x.sharers(), ", ") + ", which has the same taint"
	case t.By == report.ByStranger:
		text = "is on: put there by somebody else"
	default:
		text = "is on" + since
	}
	return text + x.becomes(t)
}

// becomes is what becomes of the taint.
func (x *explainer) becomes(t *report.Taint) string {
	switch t.Change {
	case changeAdd:
		return "; the operator is about to put it on"
	case changeRemove:
		return "; the operator is about to take it off"
	case changeAdopt:
		return "; the operator is about to take it over"
	}
	if t.By == report.ByStranger {
		return "; this rule does not touch it"
	}
	return ""
}

// otherTaints are the taints that no rule has to do with.
func otherTaints(in *Input, decisions []gate.Decision) []report.OtherTaint {
	var out []report.OtherTaint
	for _, t := range in.Node.Spec.Taints {
		ours := slices.ContainsFunc(decisions, func(d gate.Decision) bool {
			claimed, err := gate.ParseTaint(d.Was.Record.Taint)
			return d.Rule.Taint != nil && d.Rule.Taint.Key == t.Key && d.Rule.Taint.Effect == t.Effect ||
				err == nil && claimed.Key == t.Key && claimed.Effect == t.Effect
		})
		if !ours {
			out = append(out, report.OtherTaint{Taint: t.ToString(), By: usually(in, &t)})
		}
	}
	return out
}

// usually is who usually sets a taint.
func usually(in *Input, t *corev1.Taint) string {
	switch {
	case t.Key == corev1.TaintNodeUnschedulable:
		return "the node is cordoned"
	case t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable:
		return "Kubernetes: its condition Ready is not True"
	case strings.HasPrefix(t.Key, "node.kubernetes.io/"):
		return "Kubernetes: a condition of the node"
	case strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/"):
		return "the cloud provider"
	case strings.HasPrefix(t.Key, "node-role.kubernetes.io/"):
		return "the node's role"
	}
	for _, r := range in.Rules.All() {
		if r.Taint != nil && r.Taint.Key == t.Key && r.Taint.Effect == t.Effect {
			return fmt.Sprintf("rule %s has it, but does not select this node: nobody takes it off", r.Name)
		}
	}
	return "not a rule"
}

// notSelected are the rules that do not select the node, and why.
func notSelected(in *Input) []report.NotSelected {
	var out []report.NotSelected
	for _, r := range in.Rules.All() {
		if r.Matches(in.Node.Labels) {
			continue
		}
		out = append(out, report.NotSelected{Rule: r.Name, Why: whyNot(r, in.Node.Labels)})
	}
	slices.SortFunc(out, func(a, b report.NotSelected) int { return strings.Compare(a.Rule, b.Rule) })
	return out
}

func whyNot(r *ruleset.Rule, have labels.Set) string {
	requirements, selectable := r.Selector.Requirements()
	if !selectable {
		return "its nodeSelector is invalid, and selects nothing"
	}
	for i := range requirements {
		q := &requirements[i]
		if q.Matches(have) {
			continue
		}
		is := "not there"
		if have.Has(q.Key()) {
			is = fmt.Sprintf("%q", have.Get(q.Key()))
		}
		return fmt.Sprintf("wants %s, and the label is %s", q, is)
	}
	return ""
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// StateUnreported means that the operator has not evaluated the present version of a rule.
const StateUnreported = "Unreported"

// maxHeldNodes is how many held nodes are named.
const maxHeldNodes = 10

// Statuses returns the state of rules as the operator reports it, sorted by name.
func Statuses(rules []v1alpha1.NodeReadinessRule) *RuleStatusList {
	out := &RuleStatusList{TypeMeta: Type("RuleStatusList"), Items: make([]RuleStatus, 0, len(rules))}
	for i := range rules {
		out.Items = append(out.Items, statusOf(&rules[i]))
	}
	slices.SortFunc(out.Items, func(a, b RuleStatus) int { return strings.Compare(a.Rule, b.Rule) })
	return out
}

// Names implements Named.
func (l *RuleStatusList) Names() []string {
	var out []string
	for i := range l.Items {
		out = append(out, ruleName(l.Items[i].Rule))
	}
	return out
}

func ruleName(rule string) string { return "nodereadinessrule." + v1alpha1.Served().Name + "/" + rule }

// runs is what to do about a report that is missing. After a change, that is so for a moment.
const runs = "; if this lasts, check that it is running"

func statusOf(rule *v1alpha1.NodeReadinessRule) RuleStatus {
	s := RuleStatus{Rule: rule.Name, Mode: string(rule.Spec.EnforcementMode), Nodes: rule.Status.Nodes,
		CreatedAt: rule.CreationTimestamp, Paused: PausedAt(rule)}
	if t := rule.Spec.Taint; t != nil {
		s.Taint = t.Key + "=" + t.Value + ":" + string(t.Effect)
	}
	c := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case !rule.DeletionTimestamp.IsZero() && !slices.Contains(rule.Finalizers, v1alpha1.Served().Finalizer):
		s.State, s.Message = "Deleting", "it is being deleted, and waits until the owners of these finalizers remove them: "+
			strings.Join(rule.Finalizers, ", ")
	case !rule.DeletionTimestamp.IsZero():
		s.State, s.Message = "Deleting", "it is being deleted, and waits until the operator has removed its taints"
	case c == nil:
		s.State, s.Message = StateUnreported, "the operator has not reported on it yet"+runs
	case c.ObservedGeneration != rule.Generation:
		s.State, s.Message = StateUnreported, "the operator has not reported on its last change yet"+runs
	default:
		s.State = c.Reason
		if c.Status != metav1.ConditionTrue && c.Reason != "DryRun" && c.Reason != "Suspended" {
			s.Message = c.Message
		}
	}
	c = meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionServed)
	if s.Message == "" && s.Paused == nil && c != nil && c.Status == metav1.ConditionFalse &&
		c.ObservedGeneration == rule.Generation {
		s.Message = c.Message
	}
	s.BudgetExhausted = meta.IsStatusConditionTrue(rule.Status.Conditions, v1alpha1.ConditionBudgetExhausted)
	for _, n := range rule.Status.NodeEvaluations {
		if n.State == v1alpha1.NodeStateHeld {
			s.HeldNodes = append(s.HeldNodes, n.NodeName)
		}
	}
	for _, n := range rule.Status.FailedNodes {
		s.HeldNodes = append(s.HeldNodes, n.NodeName)
	}
	s.HeldNodes = s.HeldNodes[:min(len(s.HeldNodes), maxHeldNodes)]
	return s
}

// Unreported reports whether no operator has ever reported on a rule.
func Unreported(rule *v1alpha1.NodeReadinessRule) bool {
	return meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady) == nil
}

// PausedAt returns when kubectl nodegate pause suspended a rule; nil if it did not.
func PausedAt(rule *v1alpha1.NodeReadinessRule) *metav1.Time {
	value, ok := rule.Annotations[v1alpha1.PausedAnnotation]
	if !ok || !rule.Spec.Suspend {
		return nil
	}
	t, _ := time.Parse(time.RFC3339, value) // if a person wrote the annotation, the time may be unknown
	return &metav1.Time{Time: t}
}

// Text implements Report.
func (l *RuleStatusList) Text(style Style) string {
	p := &page{Style: style}
	p.frozen(l.Frozen)
	p.operator(l.Operator)
	if len(l.ManagedBy) > 0 {
		p.line(yellow, 0, "Another tool may manage the CRD, and replace it with its own: %s.",
			strings.Join(l.ManagedBy, ", "))
	}
	if len(l.Items) == 0 {
		p.line(plain, 0, "No rules found: no node is held.")
		return p.String()
	}
	header := []string{"RULE", "STATE", "NODES", "READY", "HELD", "EXEMPT", "FAILED", "PENDING"}
	if p.Wide {
		header = append(header, "MODE", "TAINT", "HELD NODES")
	}
	var rows []row
	for i := range l.Items {
		rows = append(rows, p.status(&l.Items[i]))
	}
	p.table(0, header, rows, func(i, space int) string { return bar(l.Items[i].Nodes, min(space, 20)) })
	for i := range l.Items {
		r := &l.Items[i]
		switch {
		case r.Message != "":
			p.item(yellow, 0, r.Rule+":", r.Message)
		case r.Paused != nil:
			p.item(yellow, 0, r.Rule+":",
				fmt.Sprintf("paused %s ago; to resume it: kubectl nodegate resume %s", p.ago(r.Paused.Time), r.Rule))
		case r.BudgetExhausted:
			p.item(yellow, 0, r.Rule+":", "its limit is reached: other nodes that are not ready stay as they are")
		}
	}
	p.blank()
	p.line(dim, 0, "READY: the evidence holds. HELD: the rule's taint is on. EXEMPT: not ready, but not held. FAILED: "+
		"the operator could not update the node. PENDING: not evaluated yet.")
	if p.Width > 0 {
		p.line(dim, 0, "█ ready   ▒ exempt or pending   ░ held or failed")
	}
	return p.String()
}

func (p *page) status(r *RuleStatus) row {
	out := row{color: green, cells: []string{r.Rule, r.State}}
	if n := r.Nodes; n == nil {
		out.cells = append(out.cells, "-", "-", "-", "-", "-", "-")
	} else {
		for _, count := range []int32{n.Matched, n.Ready, n.Held, n.Exempt, n.Failed, n.Pending} {
			out.cells = append(out.cells, fmt.Sprint(count))
		}
		if n.Held+n.Failed > 0 {
			out.color = red
		}
	}
	if out.color == green && (r.State != "InForce" || r.Message != "") {
		out.color = yellow
	}
	if p.Wide {
		out.cells = append(out.cells, r.Mode, r.Taint, strings.Join(r.HeldNodes, ","))
	}
	return out
}

// bar draws ready nodes, then exempt and pending ones, then held and failed ones. Every non-zero count has at least one
// cell. If there is too little space, the bar is empty.
func bar(n *v1alpha1.NodeCounts, width int) string {
	if width < 6 {
		return ""
	}
	if n == nil || n.Matched == 0 {
		return strings.Repeat("·", width)
	}
	var cells [3]int
	left, largest := width, 0
	for i, count := range [3]int32{n.Ready, n.Exempt + n.Pending, n.Held + n.Failed} {
		if count > 0 {
			cells[i] = max(1, int(count)*width/int(n.Matched))
		}
		if left -= cells[i]; cells[i] > cells[largest] {
			largest = i
		}
	}
	cells[largest] += left
	return strings.Repeat("█", cells[0]) + strings.Repeat("▒", cells[1]) + strings.Repeat("░", cells[2])
}

// Text implements Report.
func (r *LintReport) Text(style Style) string {
	p := &page{Style: style}
	for _, f := range merge(r.Findings) {
		c, field := yellow, ""
		if f.Severity == SeverityError {
			c = red
		}
		if f.Field != "" {
			field = f.Field + ": "
		}
		p.item(c, 0, fmt.Sprintf("%s: rule %s: %s:", f.Source, f.Rule, strings.ToLower(f.Severity)),
			fmt.Sprintf("%s%s (%s)", field, f.Message, f.Code))
	}
	if len(r.Findings) == 0 {
		p.line(green, 0, "%s checked: no findings.", Plural(r.Rules, "rule", "rules"))
	}
	return p.String()
}

// Names implements Named: the rules with findings.
func (r *LintReport) Names() []string {
	out := sets.New[string]()
	for _, f := range r.Findings {
		out.Insert(ruleName(f.Rule))
	}
	return sets.List(out)
}

// merge makes one finding of those that give the same advice about rules of a file.
func merge(findings []Finding) (out []Finding) {
	for _, f := range findings {
		i := slices.IndexFunc(out, func(o Finding) bool {
			return f.Severity == SeverityAdvice && o.Code == f.Code && o.Source == f.Source && o.Message == f.Message
		})
		if i < 0 {
			out = append(out, f)
			continue
		}
		out[i].Rule += ", " + f.Rule
	}
	return out
}

// Text implements Report.
func (v *Versions) Text(style Style) string {
	p := &page{Style: style}
	p.line(plain, 0, "Plugin: %s (%s)", v.Plugin, v.Commit)
	for _, image := range v.Operator {
		p.line(plain, 0, "Operator: %s", image)
	}
	if v.CRD != "" {
		p.line(plain, 0, "CRD: %s", v.CRD)
	}
	for _, s := range v.Skew {
		p.line(yellow, 0, "warning: %s", s)
	}
	p.unread(v.Unread)
	return p.String()
}

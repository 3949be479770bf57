// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/text"
)

var modeWords = map[string]string{
	"Suspended": "suspended", "DryRun": "in dry-run", "Frozen": "frozen", "Deleting": "being deleted",
}

var stateColors = map[v1alpha1.NodeState]Color{
	v1alpha1.NodeStateHeld: red, v1alpha1.NodeStateFailed: red, v1alpha1.NodeStateReady: green,
}

// Text implements Report.
func (e *NodeExplanation) Text(style Style) string {
	p := &page{Style: style}
	p.frozen(e.Frozen)
	p.headline(e)
	var satisfied []*RuleExplanation
	for i := range e.Rules {
		r := &e.Rules[i]
		present := r.Taint != nil && r.Taint.Present
		if !p.Wide && r.State == v1alpha1.NodeStateReady && !present && len(r.Deadlines) == 0 &&
			len(r.notes()) == 0 {
			satisfied = append(satisfied, r)
			continue
		}
		p.rule(r, strings.Contains(e.Summary, r.Message), e.Next)
	}
	for i, r := range satisfied {
		if i == 0 {
			p.blank()
		}
		p.item(green, 0, "✓", "rule "+r.Rule+": "+r.Message)
	}
	p.others(e)
	p.unread(e.Unread)
	return p.String()
}

// headline writes what people want to know first, and what they can do.
func (p *page) headline(e *NodeExplanation) {
	c := green
	if e.Held {
		c = red
	} else if len(e.OtherTaints) > 0 || e.Unschedulable || e.Terminating {
		c = yellow
	}
	p.line(c, 0, "%s", e.Summary)
	if e.Next != nil {
		of := ""
		if e.Next.Rule != "" && len(e.HeldBy) != 1 {
			of = "rule " + e.Next.Rule + ": "
		}
		p.line(plain, 0, "Next, %s: %s%s.", p.in(e.Next.At.Time), of, e.Next.What)
	}
	switch {
	case e.Override != nil && e.Override.Problem == "":
		p.command("To let the rules decide again:", "kubectl nodegate release --undo "+e.Node)
	case e.Held:
		p.command("To remove the taint now:", "kubectl nodegate release "+e.Node)
	}
	if e.Override != nil && e.Override.Problem != "" {
		p.line(yellow, 0, "The override %q has no effect: %s.", e.Override.Value, e.Override.Problem)
	}
	var odd []string
	switch e.Ready {
	case "True":
	case "":
		odd = append(odd, "has not reported Ready")
	default:
		odd = append(odd, "is Ready="+e.Ready)
	}
	if e.Unschedulable {
		odd = append(odd, "is cordoned")
	}
	if e.Terminating {
		odd = append(odd, "is being deleted")
	}
	if e.Maintenance != "" {
		odd = append(odd, "is in maintenance ("+e.Maintenance+")")
	}
	if len(odd) > 0 {
		p.line(yellow, 0, "The node itself %s.", strings.Join(odd, ", "))
	}
	p.operator(e.Operator)
	p.unreported(e)
}

// unreported writes which rules nothing acts on, and where to look.
func (p *page) unreported(e *NodeExplanation) {
	var rules []string
	for i := range e.Rules {
		if e.Rules[i].Unreported {
			rules = append(rules, e.Rules[i].Rule)
		}
	}
	if len(rules) == 0 {
		return
	}
	slices.Sort(rules)
	p.line(red, 0, "Nothing acts on rule %s: no operator has reported on it.", text.Few(rules, 3, len(rules)))
	p.command("To see whether the operator runs:", "kubectl get pods -A -l "+
		"app.kubernetes.io/name=nodegate,app.kubernetes.io/component=manager")
}

// rule writes what concerns one rule; neither its message, if the summary has it, nor the deadline that the headline
// has.
func (p *page) rule(r *RuleExplanation, said bool, next *Deadline) {
	p.blank()
	p.line(cmp.Or(stateColors[r.State], yellow), 0, "rule %s (%s)", r.Rule, stateWords(r))
	if !said && (r.Reason != "EvidenceMissing" || len(r.Evidence) == 0) {
		p.line(plain, 2, "%s.", sentence(r.Message))
	}
	failed := r.Reported != nil && r.Reported.State == v1alpha1.NodeStateFailed
	if failed {
		p.line(red, 2, "The operator could not update the node (%s, %s ago): %s", r.Reported.Reason,
			p.ago(r.Reported.At.Time), r.Reported.Message)
	}
	if r.Taint != nil {
		p.line(plain, 2, "Taint %s %s.", r.Taint.Taint, r.Taint.Message)
	}
	p.published(r.Published)
	if len(r.Evidence) > 0 {
		of := "all"
		if r.Policy == v1alpha1.ConditionPolicyAnyOf {
			of = "one"
		}
		p.line(plain, 2, "It requires %s of:", of)
		for i := range r.Evidence {
			p.evidence(&r.Evidence[i])
		}
	}
	for _, note := range r.notes() {
		p.line(plain, 2, "%s.", sentence(note))
	}
	for _, d := range r.Deadlines {
		if next == nil || d != *next {
			p.line(plain, 2, "%s: %s.", sentence(p.in(d.At.Time)), d.What)
		}
	}
	if p.Wide && r.ReleasedAt != nil {
		p.line(dim, 2, "First released %s ago.", p.ago(r.ReleasedAt.Time))
	}
	if p.Wide && r.Reported != nil && !failed {
		p.line(dim, 2, "The operator reports %s, %s, unchanged for %s.", r.Reported.State, r.Reported.Reason,
			p.ago(r.Reported.At.Time))
	}
}

// published writes the condition that the rule publishes.
func (p *page) published(c *Published) {
	switch {
	case c == nil:
	case c.Problem != "":
		p.line(yellow, 2, "It does not publish the condition %s on this node: %s.", c.Type, c.Problem)
	case c.Status == "":
		p.line(plain, 2, "It publishes the condition %s, which is not on this node.", c.Type)
	case c.Message != "":
		p.line(plain, 2, "It publishes the condition %s: %s, %s. %s.", c.Type, c.Status, c.Reason, sentence(c.Message))
	default:
		p.line(plain, 2, "It publishes the condition %s: %s, %s.", c.Type, c.Status, c.Reason)
	}
}

func stateWords(r *RuleExplanation) string {
	state := string(r.State)
	switch {
	case state == "" && strings.HasPrefix(r.Message, "the rule "):
		state = "leaving"
	case state == "":
		state = "unknown"
	}
	if r.Reason != "" {
		state += ", " + r.Reason
	}
	if r.Mode != "Enforced" {
		state += "; the rule is " + modeWords[r.Mode]
	}
	return state
}

func (p *page) evidence(e *Evidence) {
	sign, c, text := "?", yellow, e.Message
	if e.Satisfied != nil {
		sign, c = "✗", red
		if *e.Satisfied {
			sign, c = "✓", green
		}
		if e.Requirement != "" {
			text = e.Requirement + ": " + text
		}
	}
	var when []string
	if e.Since != nil {
		when = append(when, "for "+p.ago(e.Since.Time))
	}
	if e.Heartbeat != nil && e.Cause != "Stale" {
		when = append(when, "reported "+p.ago(e.Heartbeat.Time)+" ago")
	}
	if e.ChangesAt != nil && e.Condition != "" && p.Wide {
		when = append(when, "stale "+p.in(e.ChangesAt.Time))
	}
	if len(when) > 0 {
		text += " (" + strings.Join(when, ", ") + ")"
	}
	p.item(c, 4, sign, text)
}

// others writes the taints and the rules that do not concern the node.
func (p *page) others(e *NodeExplanation) {
	if len(e.OtherTaints) > 0 {
		p.blank()
		p.line(plain, 0, "Other taints:")
		for _, t := range e.OtherTaints {
			p.line(plain, 2, "%s: %s", t.Taint, t.By)
		}
	}
	n := len(e.NotSelectedBy)
	if n == 0 {
		return
	}
	p.blank()
	if !p.Wide && (len(e.Rules) > 0 || n > 10) {
		p.line(dim, 0, "%s not select it; -o wide shows why.", Plural(n, "other rule does", "other rules do"))
		return
	}
	p.line(plain, 0, "Rules that do not select it:")
	for _, r := range e.NotSelectedBy {
		p.line(dim, 2, "%s: %s", r.Rule, r.Why)
	}
}

// Nodes is a List of nodes.
type Nodes struct {
	metav1.TypeMeta `json:",inline"`

	Items []*NodeExplanation `json:"items"`
}

// NewNodes returns a List of nodes.
func NewNodes(nodes []*NodeExplanation) *Nodes {
	return &Nodes{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: append([]*NodeExplanation{}, nodes...)}
}

// Names implements Named.
func (e *NodeExplanation) Names() []string { return []string{"node/" + e.Node} }

// Names implements Named.
func (l *Nodes) Names() []string {
	var out []string
	for _, e := range l.Items {
		out = append(out, e.Names()...)
	}
	return out
}

// Rank is lower for rules that concern a node more: those that hold it first.
func (r *RuleExplanation) Rank() int {
	present := r.Taint != nil && r.Taint.Present
	switch {
	case r.State == v1alpha1.NodeStateHeld && present:
		return 0
	case r.State == v1alpha1.NodeStateHeld:
		return 1
	case present:
		return 2
	case r.State == v1alpha1.NodeStateExempt:
		return 3
	case r.State == v1alpha1.NodeStateReady:
		return 4
	}
	return 5
}

// rank is the rank of the rule that concerns the node most.
func (e *NodeExplanation) rank() int {
	if len(e.Rules) == 0 {
		return 6
	}
	return e.Rules[0].Rank()
}

// Text implements Report: a table in which nodes are grouped by the rule and the reason that concern them most, held
// nodes first.
func (l *Nodes) Text(style Style) string {
	p := &page{Style: style}
	if len(l.Items) > 0 {
		p.frozen(l.Items[0].Frozen)
	}
	groups := map[string][]*NodeExplanation{}
	for _, e := range l.Items {
		key := "no rule selects it"
		if len(e.Rules) > 0 {
			key = "rule " + e.Rules[0].Rule + ": " + stateWords(&e.Rules[0])
		}
		groups[key] = append(groups[key], e)
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		x, y := groups[a], groups[b]
		return cmp.Or(lowest(x)-lowest(y), len(y)-len(x), strings.Compare(a, b))
	})
	for i, key := range keys {
		if i > 0 {
			p.blank()
		}
		p.nodes(key, groups[key])
	}
	return p.String()
}

// lowest returns the lowest rank of nodes.
func lowest(nodes []*NodeExplanation) int {
	return slices.MinFunc(nodes, func(a, b *NodeExplanation) int { return a.rank() - b.rank() }).rank()
}

func (p *page) nodes(title string, nodes []*NodeExplanation) {
	p.line(bold, 0, "%s (%s)", sentence(title), Plural(len(nodes), "node", "nodes"))
	columns := func(cells ...string) []string {
		if p.Wide {
			return cells
		}
		return slices.Delete(cells, 3, 6)
	}
	var rows []row
	for _, e := range nodes {
		held, taint, next, message, c := "-", "-", "-", "-", green
		if len(e.Rules) > 0 {
			r := &e.Rules[0]
			message, c = r.Message, cmp.Or(stateColors[r.State], yellow)
			if t := r.Taint; t != nil && t.Present {
				taint = t.Taint
				if t.Since != nil {
					held = p.ago(t.Since.Time)
				}
			}
		}
		if e.Next != nil {
			next = p.in(e.Next.At.Time)
		}
		rows = append(rows, row{c, columns(e.Node, p.ago(e.CreatedAt.Time), held,
			cmp.Or(strings.Join(e.HeldBy, ","), "-"), taint, next, message)})
	}
	p.table(2, columns("NODE", "AGE", "HELD FOR", "HELD BY", "TAINT", "NEXT", "MESSAGE"), rows, nil)
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// maxNodes is how many nodes are listed for each rule, unless -o wide is given.
const maxNodes = 20

// Text implements Report.
func (s *Simulation) Text(style Style) string {
	p := &page{Style: style}
	for i := range s.Rules {
		if i > 0 {
			p.blank()
		}
		p.simulated(&s.Rules[i])
	}
	p.unread(s.Unread)
	return p.String()
}

// Names implements Named: the nodes that would get a taint.
func (s *Simulation) Names() []string {
	out := sets.New[string]()
	for i := range s.Rules {
		for _, n := range s.Rules[i].Nodes {
			if n.Taint == TaintAdded {
				out.Insert("node/" + n.Node)
			}
		}
	}
	return sets.List(out)
}

func (p *page) simulated(r *RuleSimulation) {
	if len(r.Problems) > 0 {
		p.line(red, 0, "Rule %s is invalid:", r.Rule)
		for _, problem := range r.Problems {
			p.line(plain, 2, "%s", problem)
		}
		return
	}
	t, c := &r.Totals, green
	if t.TaintsAdded > 0 {
		c = red
	}
	p.line(c, 0, "Rule %s (%s) %s.", r.Rule, strings.ToLower(r.Change), effect(r))
	p.line(plain, 2, "It selects %s: %d ready, %d held, %d exempt.", Plural(int(t.Matched), "node", "nodes"), t.Ready,
		t.Held,
		t.Exempt)
	if t.TaintsAddedInService > 0 {
		p.line(plain, 2, "%s in service now.",
			Plural(t.TaintsAddedInService, "of the nodes that get the taint is", "of the nodes that get the taint are"))
	}
	if t.PodsEvicted != nil {
		p.line(red, 2, "%s, at once or when a toleration ends.", Plural(*t.PodsEvicted, "pod is evicted", "pods are evicted"))
	}
	if t.OverBudget > 0 {
		p.line(plain, 2, "%s untainted only because of a limit.",
			Plural(t.OverBudget, "node that is not ready stays", "nodes that are not ready stay"))
	}
	if t.NeverReported > 0 {
		p.line(yellow, 2, "%s because evidence was never reported. Check that something reports it under this name.",
			Plural(t.NeverReported, "node is held", "nodes are held"))
	}
	switch {
	case r.Hypothetical:
		p.line(yellow, 2, "The rule is in dry-run or suspended: this is what it would do if it were enforced.")
	case r.Mode != "Enforced":
		p.line(yellow, 2, "The rule is %s: --enforce shows what it would do if it were enforced.", modeWords[r.Mode])
	}
	p.simulatedNodes(r)
}

// effect returns what a rule does to taints.
func effect(r *RuleSimulation) string {
	var does []string
	if n := r.Totals.TaintsAdded; n > 0 {
		does = append(does, fmt.Sprintf("adds taint %s to %s", r.Taint, Plural(n, "node", "nodes")))
	}
	if n := r.Totals.TaintsRemoved; n > 0 {
		does = append(does, "removes its taint from "+Plural(n, "node", "nodes"))
	}
	if len(does) == 0 {
		return "changes no taint"
	}
	return strings.Join(does, " and ")
}

func (p *page) simulatedNodes(r *RuleSimulation) {
	colors := map[string]Color{TaintAdded: red, TaintRemoved: green, TaintStays: yellow}
	var rows []row
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if boring := n.Taint == TaintNone && n.State == v1alpha1.NodeStateReady; p.Wide || !boring && len(rows) < maxNodes {
			rows = append(rows, row{colors[n.Taint], []string{n.Node, n.Taint, string(n.State), n.Reason, n.Message}})
		}
	}
	if len(rows) > 0 {
		p.table(2, []string{"NODE", "TAINT", "STATE", "REASON", "MESSAGE"}, rows, nil)
	}
	if left := len(r.Nodes) - len(rows); left > 0 {
		p.line(dim, 2, "%s not listed; use -o wide to list all nodes.", Plural(left, "node is", "nodes are"))
	}
}

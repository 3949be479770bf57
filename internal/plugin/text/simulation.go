// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"strings"

	"github.com/nodegate/nodegate/internal/plugin/report"
)

// maxNodes is how many nodes are named of each rule, unless everything is asked for.
const maxNodes = 20

// Simulation is what rules would do.
func Simulation(sim *report.Simulation, style Style) string {
	p := &page{Style: style}
	for i := range sim.Rules {
		if i > 0 {
			p.blank()
		}
		p.simulated(&sim.Rules[i])
	}
	for i, u := range sim.Unread {
		if i == 0 {
			p.blank()
		}
		p.line(yellow, 0, "Could not be read: %s", u)
	}
	return p.b.String()
}

func (p *page) simulated(r *report.RuleSimulation) {
	if len(r.Problems) > 0 {
		p.line(boldRed, 0, "Rule %s would be refused, or frozen:", r.Rule)
		for _, problem := range r.Problems {
			p.line(plain, 2, "%s", problem)
		}
		return
	}
	t := &r.Totals
	c := boldGreen
	if t.TaintsAdded > 0 {
		c = boldRed
	}
	p.line(c, 0, "Rule %s (%s): %s.", r.Rule, strings.ToLower(r.Change), verdict(r))
	p.line(plain, 2, "It selects %s: %d ready, %d held, %d exempt.", plural(int(t.Matched), "node", "nodes"), t.Ready, t.Held, t.Exempt)
	if t.TaintsAddedInService > 0 {
		p.line(plain, 2, "%s in service now.", plural(t.TaintsAddedInService, "of those that get the taint is", "of those that get the taint are"))
	}
	if t.PodsEvicted != nil {
		p.line(red, 2, "%s, at once or when a toleration ends.", plural(*t.PodsEvicted, "pod is evicted", "pods are evicted"))
	}
	if t.OverBudget > 0 {
		p.line(plain, 2, "%s open only because of maxUnavailable.", plural(t.OverBudget, "node that is not ready stays", "nodes that are not ready stay"))
	}
	if t.NeverReported > 0 {
		p.line(yellow, 2, "%s because a piece of evidence is not there at all: does anything report it, and is its name right?",
			plural(t.NeverReported, "node is held", "nodes are held"))
	}
	switch {
	case r.Hypothetical:
		p.line(yellow, 2, "This is what it would do if it were enforced; as it is, it is in dry-run or suspended.")
	case r.Mode != "Enforced":
		p.line(yellow, 2, "The rule is %s; --enforce says what it would do otherwise.", modeWords[r.Mode])
	}
	p.simulatedNodes(r)
}

func verdict(r *report.RuleSimulation) string {
	t := &r.Totals
	var does []string
	if t.TaintsAdded > 0 {
		does = append(does, fmt.Sprintf("puts %s on %s", r.Taint, plural(t.TaintsAdded, "node", "nodes")))
	}
	if t.TaintsRemoved > 0 {
		does = append(does, fmt.Sprintf("takes its taint off %s", plural(t.TaintsRemoved, "node", "nodes")))
	}
	if len(does) == 0 {
		return "changes no taint"
	}
	return strings.Join(does, " and ")
}

func (p *page) simulatedNodes(r *report.RuleSimulation) {
	words := map[string]cell{
		report.TaintAdded: {"gets the taint", red}, report.TaintRemoved: {"loses the taint", green},
		report.TaintStays: {"keeps the taint", yellow}, report.TaintNone: {"no taint", plain},
	}
	rows := [][]cell{{{"  NODE", dim}, {"TAINT", dim}, {"STATE", dim}, {"REASON", dim}, {"WHY", dim}}}
	left := 0
	for i := range r.Nodes {
		n := &r.Nodes[i]
		boring := n.Taint == report.TaintNone && n.State == "Ready"
		if !p.Wide && (boring || len(rows) > maxNodes) {
			left++
			continue
		}
		rows = append(rows, []cell{{"  " + n.Node, plain}, words[n.Taint], {string(n.State), plain}, {n.Reason, plain}, {n.Message, dim}})
	}
	if len(rows) > 1 {
		p.table(rows)
	}
	if left > 0 {
		p.line(dim, 2, "%s not listed; -o wide lists all.", plural(left, "node is", "nodes are"))
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"strings"
)

// Cause is one reason for which nodes in service do not satisfy a rule. What differs from node to node, such as the
// name of a pod, is not part of it.
type Cause struct {
	// What is the evidence that is missing, in words.
	What string
	// Nodes are the nodes' names, sorted.
	Nodes []string
}

// causes groups the nodes in service that do not satisfy a rule, the largest group first. Nodes that have never been
// released are not among them: that a new node is not ready yet is no news.
func causes(entries map[string]*Entry) []Cause {
	groups := map[string][]string{}
	for name, e := range entries {
		if !e.matches() || !e.Current.Released {
			continue
		}
		if what := cause(e); what != "" {
			groups[what] = append(groups[what], name)
		}
	}
	out := make([]Cause, 0, len(groups))
	for what, nodes := range groups {
		slices.Sort(nodes)
		out = append(out, Cause{What: what, Nodes: nodes})
	}
	slices.SortFunc(out, func(a, b Cause) int {
		return cmp.Or(len(b.Nodes)-len(a.Nodes), strings.Compare(a.What, b.What))
	})
	return out
}

func cause(e *Entry) string {
	var missing []string
	for _, r := range e.Results {
		if r.CurrentStatus != r.RequiredStatus {
			missing = append(missing, "condition "+r.Type+" is "+string(r.CurrentStatus))
		}
	}
	for _, r := range e.Requirements {
		if !r.Satisfied {
			missing = append(missing, "requirement "+r.Name+" is not satisfied")
		}
	}
	return strings.Join(missing, ", ")
}

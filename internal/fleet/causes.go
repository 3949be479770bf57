// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"strings"
)

// Cause is one reason why nodes in service do not satisfy a rule. It leaves out what differs between nodes, such as the
// name of a pod.
type Cause struct {
	// What describes the missing evidence in words.
	What string
	// Count is the number of nodes, and Nodes are the names of the first ones.
	Count int
	Nodes []string
}

// causes groups the nodes in service that do not satisfy a rule. It leaves out nodes that were never released, because
// a new node is expected not to be ready.
type causes map[string]*Cause

// add adds a node. Nodes come in the order of their names.
func (c causes) add(what, node string) {
	group := c[what]
	if group == nil {
		group = &Cause{What: what}
		c[what] = group
	}
	if group.Count++; len(group.Nodes) < fewNames {
		group.Nodes = append(group.Nodes, node)
	}
}

func (c causes) sorted() []Cause {
	out := make([]Cause, 0, len(c))
	for _, group := range c {
		out = append(out, *group)
	}
	slices.SortFunc(out, func(a, b Cause) int {
		return cmp.Or(b.Count-a.Count, strings.Compare(a.What, b.What))
	})
	return out
}

// cause describes the missing evidence. It is empty if nothing is missing, or if the rule does not match the node.
func cause(e *Entry) string {
	if !e.matches {
		return ""
	}
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

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/text"
)

// nodes warns about a selector that selects none of the nodes. It may have a typing error.
func (l *linter) nodes() {
	if len(l.facts.Nodes) == 0 || len(l.facts.selected(l.rule)) > 0 {
		return
	}
	var there []string
	requirements, _ := l.rule.Selector.Requirements()
	for _, r := range requirements {
		values, keys := sets.New[string](), sets.New[string]()
		for _, n := range l.facts.Nodes {
			if value, ok := n.Labels[r.Key()]; ok {
				values.Insert(r.Key() + "=" + value)
			}
			keys = keys.Union(sets.KeySet(n.Labels))
		}
		switch {
		case len(values) > 0:
			var wanted []string
			for _, value := range r.ValuesUnsorted() {
				wanted = append(wanted, r.Key()+"="+value)
			}
			there = append(there, "nodes have "+nearest(values, wanted...))
		case needs(r):
			there = append(there, fmt.Sprintf("no node has the label %s; nodes have %s", r.Key(), nearest(keys, r.Key())))
		}
	}
	l.warn(SelectsNothing, "spec.nodeSelector", "the rule selects none of the %d nodes of the cluster: %s",
		len(l.facts.Nodes), strings.Join(there, "; "))
}

// reporters warns about conditions that nothing reports. Their types may have typing errors.
func (l *linter) reporters() {
	reported := sets.New[string]()
	for _, n := range l.facts.Nodes {
		for _, c := range n.Status.Conditions {
			reported.Insert(string(c.Type))
		}
	}
	for i, c := range l.rule.Spec.Conditions {
		if len(l.facts.Nodes) == 0 || reported.Has(c.Type) || l.published(c.Type) || c.DefaultStatus == c.RequiredStatus {
			continue
		}
		there := ""
		if len(reported) > 0 {
			there = fmt.Sprintf("; nodes have %s", nearest(reported, c.Type))
		}
		l.warn(NoEvidence, fmt.Sprintf("spec.conditions[%d].type", i), "no node has the condition %s, and no rule publishes "+
			"it: until something reports it, no node is ready%s", c.Type, there)
	}
}

// registered warns about CSI drivers and resources that none of the selected nodes has. Their names may have typing
// errors.
func (l *linter) registered() {
	nodes := l.facts.selected(l.rule)
	offered := sets.New[string]()
	for _, n := range nodes {
		for r := range n.Status.Capacity {
			offered.Insert(string(r))
		}
	}
	for i, q := range l.rule.Spec.Requirements {
		switch {
		case q.Resource != nil && offered.Len() > 0:
			l.unregistered(fmt.Sprintf("spec.requirements[%d].resource.name", i), "resource", q.Resource.Name, offered)
		case q.CSIDriver != nil && l.facts.Drivers != nil && len(nodes) > 0:
			drivers := sets.New[string]()
			for _, n := range nodes {
				drivers.Insert(l.facts.Drivers[n.Name]...)
			}
			l.unregistered(fmt.Sprintf("spec.requirements[%d].csiDriver.name", i), "CSI driver", q.CSIDriver.Name, drivers)
		}
	}
}

func (l *linter) unregistered(field, what, name string, there sets.Set[string]) {
	if there.Has(name) {
		return
	}
	others := sets.New[string]() // without cpu, memory and so on
	for other := range there {
		if strings.Contains(other, "/") || what != "resource" {
			others.Insert(other)
		}
	}
	has := ""
	if len(others) > 0 {
		has = "; they have " + nearest(others, name)
	}
	l.warn(NoEvidence, field, "no selected node has the %s %s: until one has, no node is ready%s", what, name, has)
}

// nearest names a few of the names that are there. Those that are most like a wanted one come first: one of them may be
// meant.
func nearest(there sets.Set[string], wanted ...string) string {
	away := map[string]int{}
	for name := range there {
		away[name] = math.MaxInt
		for _, w := range wanted {
			away[name] = min(away[name], edits(w, name))
		}
	}
	names := slices.SortedFunc(maps.Keys(away), func(a, b string) int {
		return cmp.Or(away[a]-away[b], strings.Compare(a, b))
	})
	return text.Few(names, 3, len(names))
}

// edits returns the Levenshtein distance: how many characters have to be replaced, added or removed.
func edits(from, to string) int {
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		above := row[0] // of the column before
		row[0]++
		for j := range len(to) {
			replaced := above
			if from[i] != to[j] {
				replaced++
			}
			above = row[j+1]
			row[j+1] = min(replaced, above+1, row[j]+1)
		}
	}
	return row[len(to)]
}

// NeedsDrivers reports whether a rule requires a CSI driver that no workload is known to register.
func NeedsDrivers(rule *ruleset.Rule, workloads []Workload) bool {
	return slices.ContainsFunc(rule.Requirements, func(q evidence.Requirement) bool {
		p, known := providerOf(&q)
		return known && p.Field == "csiDriver.name" &&
			!slices.ContainsFunc(workloads, func(w Workload) bool { return w.provides(p) })
	})
}

// published reports whether this rule or another one publishes a condition.
func (l *linter) published(condition string) bool {
	return slices.ContainsFunc(append(l.rest(), l.rule), func(r *ruleset.Rule) bool { return publishes(r, condition) })
}

// Absent returns the warnings that something a rule names is not in the cluster.
func Absent(warnings []Warning) []Warning {
	return slices.DeleteFunc(warnings, func(w Warning) bool { return w.Code != SelectsNothing && w.Code != NoEvidence })
}

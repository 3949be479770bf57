// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/internal/ruleset"
)

// nodes warns about a selector that selects none of the nodes. It may have a typing error.
func (l *linter) nodes() {
	if len(l.facts.Nodes) == 0 || len(l.facts.selected(l.rule)) > 0 {
		return
	}
	var there []string
	requirements, _ := l.rule.Selector.Requirements()
	for _, r := range requirements {
		values := sets.New[string]()
		for _, n := range l.facts.Nodes {
			if value, ok := n.Labels[r.Key()]; ok {
				values.Insert(r.Key() + "=" + value)
			}
		}
		switch {
		case len(values) > 0:
			there = append(there, "nodes have "+some(values.UnsortedList()))
		case needs(r):
			there = append(there, "no node has the label "+r.Key())
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
			there = fmt.Sprintf("; nodes have %s", some(reported.UnsortedList()))
		}
		l.warn(NoEvidence, fmt.Sprintf("spec.conditions[%d].type", i), "no node has the condition %s, and no rule publishes "+
			"it: until something reports it, no node is ready%s", c.Type, there)
	}
}

// published reports whether this rule or another one publishes a condition.
func (l *linter) published(condition string) bool {
	return slices.ContainsFunc(append(l.rest(), l.rule), func(r *ruleset.Rule) bool { return publishes(r, condition) })
}

// Absent returns the warnings that something a rule names is not in the cluster.
func Absent(warnings []Warning) []Warning {
	return slices.DeleteFunc(warnings, func(w Warning) bool { return w.Code != SelectsNothing && w.Code != NoEvidence })
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/internal/evidence"
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
	var others []string // without cpu, memory and so on
	for other := range there {
		if strings.Contains(other, "/") || what != "resource" {
			others = append(others, other)
		}
	}
	has := ""
	if len(others) > 0 {
		has = "; they have " + some(others)
	}
	l.warn(NoEvidence, field, "no selected node has the %s %s: until one has, no node is ready%s", what, name, has)
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

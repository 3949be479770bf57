// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
	"github.com/nodegate/nodegate/internal/text"
)

// longest is the length up to which clients and the API server show a warning in full.
const longest = 255

const inert = "the operator changes no node for the rule: "

// effect warns about what a write does to existing nodes at once: it puts a rule with a taint in force, or ends that by
// dryRun. old is the rule before the write, without a name if the rule is new. rule is resolved with the other rules.
// It returns nil for other writes. It also warns of a write that does nothing, because another controller manages the
// taint, or because the operator freezes the rule.
func effect(ctx context.Context, old, obj *v1alpha1.NodeReadinessRule, rule *ruleset.Rule,
	foreign ruleset.Foreign, facts lint.Facts, now time.Time) *lint.Warning {
	field, message := "spec.dryRun", ""
	theirs, nodes := foreign.Problem(rule), facts.Nodes
	switch stored := old.Name != ""; {
	case rule.Taint == nil:
	case theirs != nil:
		field, message = theirs.Field, inert+theirs.Message
	case stored && obj.Spec.DryRun && !old.Spec.DryRun:
		message = "the operator removes the rule's taint from all nodes"
		if held := old.Status.Nodes; held != nil {
			message += fmt.Sprintf(", and it holds %d now", held.Held)
		}
		message += "; suspend: true would stop the rule and keep the taints"
	case rule.Inert() && len(rule.Problems) > 0:
		field, message = rule.Problems[0].Field, inert+rule.Problems[0].Message
	case rule.Mode != ruleset.Enforced || len(facts.Unwatched) > 0: // another warning says that this freezes the rule
	case stored && rehearsed(old, obj) != "":
		message = "the rule is in force now; in dry-run it said: " + rehearsed(old, obj) + unlimited(rule, nodes)
	case !stored || old.Spec.DryRun:
		field, message = "spec", unready(ctx, rule, nodes, now)
	}
	if message == "" {
		return nil
	}
	return &lint.Warning{Code: lint.TakesEffect, Field: field, Message: text.Clip(message, longest-len(field)-len(": "))}
}

// rehearsed returns what a rule said in dry-run, or "" if the write changes more than dryRun, or while it is not known.
func rehearsed(old, obj *v1alpha1.NodeReadinessRule) string {
	spec, status := old.Spec, &old.Status
	spec.DryRun = false
	if !old.Spec.DryRun || !equality.Semantic.DeepEqual(spec, obj.Spec) || status.DryRunResults == nil ||
		status.ObservedGeneration != old.Generation {
		return ""
	}
	return status.DryRunResults.Summary
}

// unlimited says how many nodes a rule may hold that has no limit for all of them together.
func unlimited(rule *ruleset.Rule, nodes []*corev1.Node) string {
	if rule.Spec.BootstrapOnly() || rule.Limit.Total() {
		return ""
	}
	var selected []string
	for _, n := range nodes {
		if rule.Matches(n.Labels) {
			selected = append(selected, rule.Limit.Domains("", n.Labels))
		}
	}
	switch most := rule.Limit.Most(selected); {
	case most < len(selected):
		return fmt.Sprintf("; its limits allow it to hold at most %d of them at a time", most)
	case rule.Limit.Rated():
		return "; without maxUnavailable it may hold all of them after a while"
	}
	return "; without maxUnavailable it may hold all of them at once"
}

// unready says which existing nodes a new rule selects, and which of them it finds not ready by what is on the nodes
// themselves.
func unready(ctx context.Context, rule *ruleset.Rule, nodes []*corev1.Node, now time.Time) string {
	if rule.Spec.ExistingNodesOrDefault() == v1alpha1.ExistingNodesNone {
		return ""
	}
	known := slices.DeleteFunc(slices.Clone(rule.Requirements), func(r evidence.Requirement) bool {
		return r.Origin() != evidence.OnNode
	})
	all := len(known) == len(rule.Requirements)
	selected, names := 0, []string(nil)
	for _, n := range nodes {
		if ctx.Err() != nil { // the author has waited long enough
			return ""
		}
		if !rule.Matches(n.Labels) {
			continue
		}
		selected++
		facts := &evidence.Facts{Node: n, Own: rule.Taint}
		results, good := facts.Judge(rule.Spec.Conditions, known, now), 0
		for i := range results {
			if results[i].Satisfied {
				good++
			}
		}
		if rule.Spec.AnyOf() && all && good == 0 || !rule.Spec.AnyOf() && good < len(results) {
			names = append(names, n.Name)
		}
	}
	out := fmt.Sprintf("the rule is in force at once and selects %s", text.Nodes(selected))
	switch {
	case selected == 0 || len(names) == 0 && all && unlimited(rule, nodes) == "":
		return ""
	case len(names) > 0:
		slices.Sort(names)
		out += fmt.Sprintf(", %d of them not ready (%s)", len(names), text.Few(names, 3, len(names)))
	}
	if !all {
		out += "; kubectl nodegate simulate says which it holds"
	}
	return out + unlimited(rule, nodes)
}

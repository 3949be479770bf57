// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// The warnings of rules with health.
var (
	// VerdictUnused: the rule only answers /health, and none of the checks is its verdict.
	VerdictUnused = kind("VerdictUnused")
)

// health warns about checks of rules that do not exist, and about a rule whose evidence has no effect, because /health
// answers by the checks alone.
func (l *linter) health() {
	spec := l.rule.Spec
	if spec.Health == nil {
		return
	}
	for i := range spec.Health.Checks {
		name, ofRule := strings.CutPrefix(spec.Health.Checks[i].Name, "rule:")
		if ofRule && name != l.rule.Name && l.others != nil && l.others.Named(name) == nil {
			l.warn(UnknownRule, fmt.Sprintf("spec.health.checks[%d].name", i), "rule %s does not exist: until it does, the "+
				"check passes if the node is Ready", name)
		}
	}
	if spec.Taint != nil || spec.EvictionGuard != nil || spec.Publish != nil || l.readyOnly() ||
		slices.ContainsFunc(append(l.overlapping(), l.rule), l.checksVerdict) {
		return
	}
	l.warn(VerdictUnused, "spec.health.checks", "GET /health does not check this rule's verdict: the evidence, limits "+
		"and times of the rule, and kubectl nodegate hold, do not change its answer; add the check rules")
}

// readyOnly reports whether the rule requires what the check node_ready requires.
func (l *linter) readyOnly() bool {
	return len(l.rule.Spec.Requirements) == 0 && !slices.ContainsFunc(l.rule.Spec.Conditions,
		func(c v1alpha1.ConditionRequirement) bool {
			return c.Type != string(corev1.NodeReady) || c.RequiredStatus != v1alpha1.ConditionTrue
		})
}

// checksVerdict reports whether a check of a rule looks at the verdict of the linted rule, or at its conditions.
func (l *linter) checksVerdict(r *ruleset.Rule) bool {
	return r.Spec.Health != nil && slices.ContainsFunc(r.Spec.Health.Checks, func(c v1alpha1.HealthCheck) bool {
		return slices.Contains([]string{"rules", "custom_conditions", "rule:" + l.rule.Name}, c.Name)
	})
}

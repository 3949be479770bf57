// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Rule is the limit of a rule. The zero value is no limit.
type Rule struct{ max *intstr.IntOrString }

// Of returns the limit of a spec.
func Of(spec *v1alpha1.NodeReadinessRuleSpec) Rule { return Rule{spec.MaxUnavailable} }

// Set reports whether there is a limit.
func (r Rule) Set() bool { return r.max != nil }

// String returns the limit as it is in the rule.
func (r Rule) String() string { return r.max.String() }

// Of returns how many of the nodes in service the rule may hold at a time. A percentage is rounded up.
func (r Rule) Of(inService int) int {
	if !r.Set() {
		return inService
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(r.max, inService, true)
	if err != nil || n < 0 {
		return 0 // invalid: such a rule is frozen and never gets here
	}
	return n
}

// Problem returns why the limit of a spec is invalid, or "" if it is valid.
func Problem(m *intstr.IntOrString) string {
	if m == nil {
		return ""
	}
	if n, err := intstr.GetScaledValueFromIntOrPercent(m, 100, true); err != nil || n < 0 || m.Type == intstr.String &&
		n > 100 {
		return "must be a number from 0 on, or a percentage such as 30%, not \"" + m.String() + "\""
	}
	return ""
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/evidence/condition"
)

// judge returns the required conditions that the node does not meet, as a message; empty if it meets them.
func judge(r *config.Rule, node *corev1.Node, now time.Time) string {
	var missing []string
	for i := range r.Conditions {
		j := condition.Judge(&r.Conditions[i], node, time.Time{}, now)
		switch {
		case !j.Satisfied:
			missing = append(missing, condition.Message(&r.Conditions[i], j))
		case r.AnyOf:
			return ""
		}
	}
	return strings.Join(missing, "; ")
}

// heldBack is the reason if the agent sees no reason for the operator's verdict.
const heldBack = "the operator holds the node: see the status of the rule"

// verdict decides whether the node may get traffic under the rule: by the operator's verdict, which includes all
// evidence, windows, limits and overrides. Without one, it decides by the evidence that the agent sees.
func verdict(r *config.Rule, node *corev1.Node, now time.Time) Result {
	missing := judge(r, node, now)
	switch r.Recorded(node) {
	case v1alpha1.HealthReady:
		return Pass()
	case v1alpha1.HealthNotReady:
		if missing == "" {
			missing = heldBack
		}
		return Fail(missing)
	}
	return visible(r, missing)
}

// visible decides by the evidence that the agent sees. missing is the result of judge.
func visible(r *config.Rule, missing string) Result {
	satisfied := len(r.Conditions) > 0 && missing == ""
	switch {
	case missing != "" && (!r.Elsewhere || !r.AnyOf):
		return Fail(missing)
	case r.Elsewhere && (!r.AnyOf || !satisfied):
		return FailedOpen("the rule requires evidence that the agent does not see")
	}
	return Pass()
}

// conditionsOf decides whether the node's conditions meet the rule now. If other evidence of the rule may take their
// place, its verdict counts.
func conditionsOf(r *config.Rule, node *corev1.Node, now time.Time) Result {
	missing := judge(r, node, now)
	switch {
	case missing == "":
		return Pass()
	case r.AnyOf && r.Elsewhere:
		return verdict(r, node, now)
	}
	return Fail(missing)
}

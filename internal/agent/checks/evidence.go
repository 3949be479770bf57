// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
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

// recorded returns the operator's verdict from its record on the node; empty if there is none. While the API group is
// changed, the record may be that of the rule of the same name in the other group: the operator moves it a moment
// before or after this configuration.
func recorded(r *config.Rule, node *corev1.Node) v1alpha1.HealthVerdict {
	if value, ok := node.Annotations[v1alpha1.RecordAnnotationPrefix+string(r.UID)]; ok {
		_, health := recordIn(value)
		return health
	}
	for key, value := range node.Annotations {
		if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) {
			if rule, health := recordIn(value); rule == r.Name {
				return health
			}
		}
	}
	return ""
}

// recordIn returns the rule and the verdict of a record; empty if it cannot be read.
func recordIn(value string) (rule string, health v1alpha1.HealthVerdict) {
	var record struct {
		Rule   string
		Health v1alpha1.HealthVerdict
	}
	if json.Unmarshal([]byte(value), &record) != nil {
		return "", ""
	}
	return record.Rule, record.Health
}

// verdict decides whether the node may get traffic under the rule: by the operator's verdict, which includes all
// evidence, windows, limits and overrides. Without one, it decides by the evidence that the agent sees.
func verdict(r *config.Rule, node *corev1.Node, now time.Time) Result {
	missing := judge(r, node, now)
	switch recorded(r, node) {
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

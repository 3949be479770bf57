// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Served says what runs in the cluster beside the operator, for the fields of rules that need it. Nil means unknown.
type Served struct {
	// Agents are node agents, which run probes and answer /health.
	Agents *bool
	// PodAdmission is the webhook that refuses to bind pods.
	PodAdmission *bool
	// NodeAdmission is an engine that taints nodes in the request that creates them.
	NodeAdmission *bool
	// DaemonSets may provide the evidence of the rule. They are only known to the operator's status of a rule.
	DaemonSets []Workload
}

const noAgent = "no node agent is running, or the operator's --agent-config is empty: set agent.enabled in the " +
	"chart, or use config/with-agent"

// Unserved returns warnings about the fields of a rule that have no effect, because nothing in the cluster serves them.
func Unserved(rule *ruleset.Rule, s Served) (out []Warning) {
	spec := rule.Spec
	for _, f := range []struct {
		used          bool
		served        *bool
		field, effect string
	}{
		{len(spec.Probes) > 0, s.Agents, "spec.probes", "no probe runs: " + noAgent},
		{spec.Health != nil, s.Agents, "spec.health", "nothing answers /health: " + noAgent},
		{spec.PodAdmission == v1alpha1.PodAdmissionDeny, s.PodAdmission, "spec.podAdmission", "no pod is refused: the " +
			"webhook is not installed: set podAdmission.enabled in the chart, or use config/components/pod-admission"},
		{spec.NodeAdmission == v1alpha1.NodeAdmissionTaint, s.NodeAdmission, "spec.nodeAdmission", "new nodes get the " +
			"taint shortly after their creation: no webhook and no policy adds it in the request: see docs/admission.md"},
	} {
		if f.used && f.served != nil && !*f.served {
			out = append(out, Warning{Code: NotServed, Field: f.field, Message: f.effect})
		}
	}
	return out
}

// NeedsAgents reports whether a rule has fields that only node agents serve.
func NeedsAgents(rule *ruleset.Rule) bool {
	return len(rule.Spec.Probes) > 0 || rule.Spec.Health != nil
}

// NeedsMore reports whether a rule has fields that the operator alone does not serve.
func NeedsMore(rule *ruleset.Rule) bool {
	no := new(bool)
	return len(Unserved(rule, Served{Agents: no, PodAdmission: no, NodeAdmission: no})) > 0
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// compile returns the agents' configuration for the rules. previous is the configuration before, or nil if it is
// unknown: a frozen rule keeps its entry there, also after a change of the API group.
func compile(rules *ruleset.Set, previous *config.File) *config.File {
	f := config.New()
	for _, r := range rules.All() {
		var entry config.Rule
		switch r.Mode {
		case ruleset.Deleting:
		case ruleset.Frozen:
			if previous == nil {
				continue
			}
			if i := slices.IndexFunc(previous.Rules, func(old config.Rule) bool {
				return old.UID == r.UID || old.Name == r.Name && slices.Contains(rules.Successors(), r)
			}); i >= 0 {
				entry = previous.Rules[i]
			}
		default:
			entry = entryOf(r)
		}
		if r.Mode == ruleset.DryRun || r.Withdrawn() { // its probes count, because they are evidence
			entry.Health, entry.Conditions, entry.AnyOf, entry.Elsewhere = nil, nil, false, false
		}
		if len(entry.Probes) > 0 || entry.Health != nil {
			f.Rules = append(f.Rules, entry)
		}
	}
	return f
}

// entryOf returns what agents need of a rule. A suspended rule is not evaluated: its verdict is the one in the record.
func entryOf(r *ruleset.Rule) config.Rule {
	spec := r.Spec.DeepCopy()
	entry := config.Rule{Name: r.Name, UID: r.UID, CreationTimestamp: metav1.NewTime(r.CreatedAt.UTC()),
		NodeSelector: spec.NodeSelector, Probes: spec.Probes, Health: spec.Health}
	if spec.Health != nil && r.Mode == ruleset.Enforced {
		entry.Conditions, entry.AnyOf, entry.Elsewhere = spec.Conditions, spec.AnyOf(), len(spec.Requirements) > 0
	}
	return entry
}

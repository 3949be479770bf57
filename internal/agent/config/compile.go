// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// State is whether, and how far, a rule is in force.
type State int

const (
	// InForce: the whole rule counts.
	InForce State = iota
	// DryRun: the rule's probes count, because they are evidence. Its health does not.
	DryRun
	// Suspended: the recorded verdicts of the rule count. It is not evaluated.
	Suspended
	// Frozen: the rule is invalid, and keeps its entry in the previous configuration.
	Frozen
	// Deleting: nothing of the rule counts.
	Deleting
)

// Input is a rule to compile. It is not the operator's compiled rule, whose dependencies the agent's binary must not
// have.
type Input struct {
	Name      string
	UID       types.UID
	CreatedAt time.Time
	State     State
	// Spec is not changed.
	Spec *v1alpha1.NodeReadinessRuleSpec
}

// Compile returns the agents' configuration for the rules, which may be in any order. previous is the configuration
// before, or nil if it is unknown.
func Compile(rules []Input, previous *File) *File {
	f := &File{APIVersion: APIVersion, Kind: Kind, Rules: []Rule{}}
	for i := range rules {
		r := &rules[i]
		switch r.State {
		case Deleting:
		case Frozen:
			if old := previous.find(r.UID); old != nil {
				f.Rules = append(f.Rules, *old)
			}
		default:
			if entry := compile(r); len(entry.Probes) > 0 || entry.Health != nil {
				f.Rules = append(f.Rules, entry)
			}
		}
	}
	slices.SortFunc(f.Rules, func(a, b Rule) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.UID, b.UID))
	})
	return f
}

func compile(r *Input) Rule {
	entry := Rule{
		Name: r.Name, UID: r.UID, CreationTimestamp: metav1.NewTime(r.CreatedAt.UTC()),
		NodeSelector: *r.Spec.NodeSelector.DeepCopy(),
	}
	spec := r.Spec.DeepCopy()
	entry.Probes = spec.Probes
	if spec.Health != nil && r.State != DryRun {
		entry.Health = spec.Health
	}
	if spec.Health != nil && r.State == InForce {
		entry.Conditions, entry.AnyOf, entry.Elsewhere = spec.Conditions, spec.AnyOf(), len(spec.Requirements) > 0
	}
	return entry
}

func (f *File) find(uid types.UID) *Rule {
	if f == nil {
		return nil
	}
	for i := range f.Rules {
		if f.Rules[i].UID == uid {
			return &f.Rules[i]
		}
	}
	return nil
}

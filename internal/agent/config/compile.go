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

// State is how far a rule is in force.
type State int

const (
	// InForce: all of the rule counts.
	InForce State = iota
	// DryRun: the rule is in dry-run. Its probes count, for they are evidence; its health does not.
	DryRun
	// Suspended: the rule keeps the verdicts that stand in its records on nodes, and is not judged.
	Suspended
	// Frozen: the rule is invalid, and keeps what it had in the configuration before.
	Frozen
	// Deleting: nothing of the rule counts.
	Deleting
)

// Input is a rule to be compiled. It is not the operator's compiled rule: the agent's binary must not contain what that
// needs.
type Input struct {
	Name      string
	UID       types.UID
	CreatedAt time.Time
	State     State
	// Spec is not changed.
	Spec *v1alpha1.NodeReadinessRuleSpec
}

// Compile makes the agents' configuration of the rules, in any order. previous is what it made before, nil if that is
// not known.
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

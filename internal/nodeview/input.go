// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeview

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Input is what decisions about a node under one rule read, in the packages state and guard.
type Input struct {
	Rule     *ruleset.Rule
	Node     *corev1.Node
	State    State
	Verdict  readiness.Verdict
	Override Override
	// Watched reports whether this process has observed the node since before its last reboot, with the rule in force.
	Watched bool
	// Occupied reports whether a pod runs on the node that the taint would evict or refuse. It is called if the rule
	// begins to match an old node. While the answer is unknown, the node counts as in service. nil means that no pod
	// runs there.
	Occupied func(*corev1.Taint) (occupied, known bool)
	// Busy reports whether pods run on the node that are not part of it. It is called only if existingNodes: Idle makes
	// a difference. While the answer is unknown, or if Busy is nil, the node is exempt.
	Busy func() (busy, known bool)
	// Evicted reports whether all pods are evicted that were due when the rule's guard ended. It is called if the rule
	// no longer guards the node. nil means that the operator does not evict pods.
	Evicted func() bool
	// NoRoom reports whether the node's annotations have no room for the record of a new claim of the rule.
	NoRoom bool
	// Objective is the time within which a node should be released for the first time. 0 means no objective.
	Objective time.Duration
	Now       time.Time
}

// Stamp returns the current time for a record: in whole seconds, and not before the node's creation. If the
// clocks of two API servers differ, it could be earlier, and DecodeRecord would take it for a forged time.
func (in *Input) Stamp() metav1.Time {
	now := in.Now.Truncate(time.Second)
	if created := in.Node.CreationTimestamp; now.Before(created.Time) {
		return created
	}
	return metav1.NewTime(now)
}

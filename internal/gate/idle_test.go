// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

func TestIdleNodes(t *testing.T) {
	yes, no := func() (bool, bool) { return true, true }, func() (bool, bool) { return false, true }
	never := func() (bool, bool) { t.Error("asked where it makes no difference"); return false, true }
	for name, c := range map[string]struct {
		policy v1alpha1.ExistingNodesPolicy
		node   *build.NodeWrapper
		busy   func() (bool, bool)
		state  v1alpha1.NodeState
	}{
		"an idle node":                         {v1alpha1.ExistingNodesIdle, Old(), no, v1alpha1.NodeStateHeld},
		"a busy node":                          {v1alpha1.ExistingNodesIdle, Old(), yes, v1alpha1.NodeStateExempt},
		"a node without knowledge of its pods": {v1alpha1.ExistingNodesIdle, Old(), nil, v1alpha1.NodeStateExempt},
		"an idle node of the control plane": {v1alpha1.ExistingNodesIdle,
			Old().Label("node-role.kubernetes.io/control-plane", ""), never, v1alpha1.NodeStateExempt},
		"and of one of the older kind": {v1alpha1.ExistingNodesIdle, Old().Label("node-role.kubernetes.io/master", ""),
			never, v1alpha1.NodeStateExempt},
		"a new node": {v1alpha1.ExistingNodesIdle, Fresh(), never, v1alpha1.NodeStateHeld},
		"a node that has the taint": {v1alpha1.ExistingNodesIdle, Old().Taint(Key, "pending", NoSchedule), never,
			v1alpha1.NodeStateHeld},
		"a node that was ready under it": {v1alpha1.ExistingNodesIdle, Old().Annotation(RecordKey, Released(-86400)),
			never, v1alpha1.NodeStateHeld},
		"existingNodes: All does not ask":  {v1alpha1.ExistingNodesAll, Old(), never, v1alpha1.NodeStateHeld},
		"existingNodes: None does not ask": {v1alpha1.ExistingNodesNone, Old(), never, v1alpha1.NodeStateExempt},
		"a node of the control plane, to All": {v1alpha1.ExistingNodesAll,
			Old().Label("node-role.kubernetes.io/control-plane", ""), never, v1alpha1.NodeStateHeld},
	} {
		t.Run(name, func(t *testing.T) {
			r := ruleset.Compile(Rule().ExistingNodes(c.policy).Obj(), nil, At(0))
			node := c.node.Obj()
			standing := gate.StateOf(r, node, At(10))
			verdict := readiness.Evaluate(r, &readiness.Facts{Node: node, Evidence: &readiness.Evidence{}}, At(10))
			if got := gate.Decide(gate.Input{Rule: r, Node: node, State: standing, Verdict: verdict, Busy: c.busy,
				Now: At(10)}); got.State != c.state {
				t.Errorf("%s (%s), want %s", got.State, got.Reason, c.state)
			}
		})
	}
}

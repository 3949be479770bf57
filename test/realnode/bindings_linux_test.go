// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"strings"
	"testing"
)

// guardsBindings is a rule with podAdmission: Deny: no client can place a pod on a held node past the scheduler, unless
// the pod tolerates the taint.
func guardsBindings(t *testing.T) {
	ctx := t.Context()
	node := lab.Nodes[1].Name
	kubectl(t, "label", "node", node, "--overwrite", "example.com/pool=closed")
	apply(t, `apiVersion: readiness.node.x-k8s.io/v1alpha1
kind: NodeReadinessRule
metadata: {name: closed}
spec:
  nodeSelector: {matchLabels: {example.com/pool: closed}}
  conditions: [{type: example.com/Open, requiredStatus: "True"}]
  taint: {key: readiness.k8s.io/Closed, value: pending, effect: NoSchedule}
  podAdmission: Deny
  enforcementMode: continuous
`)
	eventually(t, "the node is held", func() error { return tainted(node, "readiness.k8s.io/Closed", true) })
	pod := func(name, spec string) string {
		return fill(`apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  SPEC
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: IMAGE}]
`, "NAME", name, "SPEC", spec, "IMAGE", PodImage)
	}
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "rule closed") {
			t.Errorf("%s should be refused by rule closed: %v", what, err)
		}
	}
	refused("creating a pod on the node", lab.Apply(ctx, pod("placed", "nodeName: "+node)))
	apply(t, pod("unplaced", "schedulerName: none"))
	_, err := lab.KubectlWith(ctx, fill(`{"apiVersion": "v1", "kind": "Binding",
		"metadata": {"name": "unplaced", "namespace": "default"},
		"target": {"apiVersion": "v1", "kind": "Node", "name": "NODE"}}`, "NODE", node),
		"create", "--raw", "/api/v1/namespaces/default/pods/unplaced/binding", "-f", "-")
	refused("binding a pod to the node", err)

	apply(t, pod("tolerant", "nodeName: "+node+"\n  tolerations: [{key: readiness.k8s.io/Closed, operator: Exists}]"))
	kubectl(t, "wait", "--for=condition=Ready", "pod/tolerant", "--timeout=5m")
	report(t, node, "example.com/Open", true)
	eventually(t, "the node is released", func() error { return tainted(node, "readiness.k8s.io/Closed", false) })
	apply(t, pod("placed", "nodeName: "+node))
	kubectl(t, "wait", "--for=condition=Ready", "pod/placed", "--timeout=5m")
	kubectl(t, "delete", "pod", "placed", "unplaced", "tolerant", "--timeout=5m")
	kubectl(t, "delete", "nrr", "closed", "--timeout=5m")
}

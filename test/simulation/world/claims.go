// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/script"
)

func claimName(n int) string { return fmt.Sprintf("c%d", n) }

// doClaim is Karpenter, and an administrator who deletes NodeClaims. A NodeClaim that is created again has the same
// name.
func (w *World) doClaim(s *script.Step) {
	name := claimName(s.Node)
	o := w.server.Get(api.NodeClaims, name)
	switch {
	case s.Do == "claim.launch":
		w.launch(s)
	case o == nil:
	case s.Do == "claim.update":
		w.patchClaim(name, "status", map[string]any{"status": map[string]any{"nodeName": nodeName(s.Node),
			"lastPodEventTime": w.now.Format(time.RFC3339)}})
	case s.Do == "claim.delete":
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.NodeClaims, Name: name})
	case s.Do == "claim.finish" && o.Meta.GetDeletionTimestamp() != nil:
		w.send(api.Request{User: "karpenter", Verb: "delete", Kind: api.Nodes, Name: nodeName(s.Node)})
		w.patchClaim(name, "", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		w.launch(s)
	}
}

// launch makes a NodeClaim and its node. Some nodes do not name their owner, or name another one; some NodeClaims do
// not name the node yet.
func (w *World) launch(s *script.Step) {
	name := claimName(s.Node)
	if w.server.Get(api.NodeClaims, name) != nil || w.server.Get(api.Nodes, nodeName(s.Node)) != nil {
		return
	}
	w.machines++
	machine := fmt.Sprintf("sim://%d", w.machines)
	w.send(api.Request{User: "karpenter", Verb: "create", Kind: api.NodeClaims, Object: &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": map[string]any{
			"name": name, "finalizers": []any{"karpenter.sh/termination"}}}}})
	status := map[string]any{"providerID": machine}
	if s.Of != "unnamed" {
		status["nodeName"] = nodeName(s.Node)
	}
	w.patchClaim(name, "status", map[string]any{"status": status})
	owner := w.server.Get(api.NodeClaims, name)
	if other := w.server.Get(api.NodeClaims, claimName(s.N)); s.Of == "forged" && other != nil {
		owner = other
	}
	w.register(s, func(n *corev1.Node) {
		n.Spec.ProviderID = machine
		if s.Of != "ownerless" {
			n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim",
				Name: owner.Meta.GetName(), UID: owner.Meta.GetUID()}}
		}
	})
}

func (w *World) patchClaim(name, sub string, patch map[string]any) {
	raw, err := json.Marshal(patch)
	utilruntime.Must(err)
	w.send(api.Request{User: "karpenter", Verb: "patch", Patch: types.MergePatchType, Kind: api.NodeClaims, Name: name,
		Sub: sub, Body: raw})
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeClaims is the kind of Karpenter's NodeClaims.
var nodeClaims = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}

// nodeClaim reads the NodeClaim of a node from the API server: the one that owns the node, or if none does, the one
// that names it. A kubelet can name any owner on its own node, so the NodeClaim has to name the node as well.
func (h *Handover) nodeClaim(ctx context.Context, node *corev1.Node) (*unstructured.Unstructured, error) {
	for i := range node.OwnerReferences {
		owner := &node.OwnerReferences[i]
		if gv, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || gv.Group != nodeClaims.Group ||
			owner.Kind != nodeClaims.Kind {
			continue
		}
		claim := &unstructured.Unstructured{}
		claim.SetGroupVersionKind(nodeClaims)
		if err := h.Live.Get(ctx, types.NamespacedName{Name: owner.Name}, claim); err != nil {
			return nil, fmt.Errorf("reading NodeClaim %q: %w", owner.Name, explainClaims(err))
		}
		if claim.GetUID() != owner.UID || !claims(claim, node) {
			return nil, fmt.Errorf("node %q names NodeClaim %q as its owner, which is not about this node", node.Name,
				owner.Name)
		}
		return claim, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(nodeClaims.GroupVersion().WithKind("NodeClaimList"))
	if err := h.Live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", explainClaims(err))
	}
	var found []*unstructured.Unstructured
	for i := range list.Items {
		if claims(&list.Items[i], node) {
			found = append(found, &list.Items[i])
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d NodeClaims are about node %q, want one: Karpenter must have created the node", len(found),
			node.Name)
	}
	return found[0], nil
}

// claims reports whether a NodeClaim is about a node. It names a registered node, and before that the machine.
func claims(claim *unstructured.Unstructured, node *corev1.Node) bool {
	name, _, _ := unstructured.NestedString(claim.Object, "status", "nodeName")
	if name != "" {
		return name == node.Name
	}
	machine, _, _ := unstructured.NestedString(claim.Object, "status", "providerID")
	return machine != "" && machine == node.Spec.ProviderID
}

// deleteClaim deletes a NodeClaim, unless it has changed since it was read, for example because the node has become
// ready.
func (h *Handover) deleteClaim(ctx context.Context, claim *unstructured.Unstructured) error {
	uid, version := claim.GetUID(), claim.GetResourceVersion()
	err := h.Live.Delete(ctx, claim, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting NodeClaim %q: %w", claim.GetName(), explainClaims(err))
	}
	return nil
}

// explainClaims adds what to do if the operator may not use NodeClaims, or there are none.
func explainClaims(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; install config/components/node-claims, or set the chart's nodeClaims.enabled", err)
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%w; install Karpenter, or use method: Annotation", err)
	}
	return err
}

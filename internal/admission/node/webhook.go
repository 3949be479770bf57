// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	webhooks "github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
)

// Webhook is the mutating webhook for nodes.
type Webhook struct {
	// Rules returns the rules that taint nodes at admission.
	Rules func() []ruleset.AdmissionRule
	// Acting returns the active engine. The webhook changes nothing while another one is active.
	Acting func() Kind
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Path implements admission.Handler.
func (*Webhook) Path() string { return "/mutate-nodes" }

// Handle implements admission.Handler.
func (w *Webhook) Handle(ctx context.Context, req admission.Request) admission.Response {
	if w.Acting() != EngineWebhook {
		return admission.Allowed("")
	}
	if req.Resource.Resource != "nodes" || req.SubResource != "" || req.Operation != admissionv1.Create &&
		req.Operation != admissionv1.Update {
		return admission.Allowed("").WithWarnings("nodegate: this webhook reviews only creations and updates of nodes")
	}
	// NodeRestriction checks a kubelet's update again after the mutation, and would refuse the new taint.
	if req.Operation == admissionv1.Update && slices.Contains(req.UserInfo.Groups, user.NodesGroup) {
		return admission.Allowed("")
	}
	node, err := webhooks.Decode[corev1.Node](req.Object.Raw)
	if err != nil {
		return webhooks.Unreadable("node", err)
	}
	var old *corev1.Node
	if req.Operation == admissionv1.Update {
		if old, err = webhooks.Decode[corev1.Node](req.OldObject.Raw); err != nil {
			return webhooks.Unreadable("node", err)
		}
	}
	admitted := taints.Admit(w.Rules(), old, node, w.Clock.Now())
	response := admission.Allowed("")
	if admitted.Patch == nil {
		return response
	}
	response.Patch = admitted.Patch
	response.PatchType = new(admissionv1.PatchTypeJSONPatch)
	if req.DryRun == nil || !*req.DryRun {
		admittedTaints.WithLabelValues(string(EngineWebhook)).Add(float64(admitted.Claims))
	}
	log.FromContext(ctx).V(2).Info("Tainted node", "node", node.Name, "operation", req.Operation, "rules",
		admitted.Claims)
	return response
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Path is the URL path of the webhook.
const Path = "/guard-pods"

// Handler decides whether a pod may be deleted.
type Handler struct {
	// Nodes reads from a cache.
	Nodes client.Reader
	// Rules returns the current snapshot of all rules.
	Rules func() *ruleset.Set
	// Synced reports whether Nodes and Rules are complete. Until then the webhook allows everything.
	Synced func() bool
	// Users are the users whose deletions the guard denies.
	Users []string
	// Namespace is the operator's own namespace.
	Namespace string
	// Reporter reports denials.
	Reporter *Reporter
	// Clock tells the time by the API server's clock.
	Clock clock.PassiveClock
}

// Path implements admission.Handler.
func (h *Handler) Path() string { return Path }

// Handle implements admission.Handler.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if !isDeletion(&req) || !h.Synced() {
		return admission.Allowed("")
	}
	rules := h.Rules()
	if !slices.Contains(h.Users, req.UserInfo.Username) || !slices.ContainsFunc(rules.All(), guards) {
		return admission.Allowed("")
	}
	pod, err := decode(req.OldObject.Raw)
	if err != nil {
		return admission.Allowed("").WithWarnings(fmt.Sprintf("nodegate: the deletion is allowed, because the pod cannot "+
			"be read: %v", err))
	}
	if pod.Spec.NodeName == "" {
		return admission.Allowed("")
	}
	node := &corev1.Node{}
	if err := h.Nodes.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		return admission.Allowed("") // the node is gone, or too new to be known
	}
	d := guard.Decide(&guard.Request{
		User: req.UserInfo.Username, Pod: pod, Node: node, Rules: rules, Namespace: h.Namespace, Now: h.Clock.Now(),
	})
	return h.answer(&req, pod, node, &d)
}

// isDeletion reports whether the request deletes a pod.
func isDeletion(req *admission.Request) bool {
	return req.Operation == admissionv1.Delete && req.Resource.Group == "" && req.Resource.Resource == "pods" &&
		req.SubResource == "" &&
		len(req.OldObject.Raw) > 0
}

func guards(rule *ruleset.Rule) bool { return rule.Spec.EvictionGuard != nil }

// answer makes the response. It counts and reports the decision, except for a server-side dry run.
func (h *Handler) answer(req *admission.Request, pod *corev1.Pod, node *corev1.Node,
	d *guard.Decision) admission.Response {
	response := admission.Allowed("")
	dryRun := req.DryRun != nil && *req.DryRun
	if d.Rule != nil {
		response = admission.Denied(d.Message)
		if !dryRun {
			denials.WithLabelValues(d.Rule.Name).Inc()
			h.Reporter.add(denial{user: req.UserInfo.Username, pod: pod, node: node, rule: d.Rule, message: d.Message,
				since: cmp.Or(d.ReadySince, d.Hold.Since), until: d.Hold.Until})
		}
	}
	if len(d.Rehearsed) > 0 {
		names := make([]string, 0, len(d.Rehearsed))
		for _, r := range d.Rehearsed {
			names = append(names, r.Name)
			if !dryRun {
				rehearsals.WithLabelValues(r.Name).Inc()
				h.Reporter.add(denial{pod: pod, node: node, rule: r})
			}
		}
		response = response.WithWarnings(fmt.Sprintf("nodegate: pod %s/%s is on node %s, which is not ready: %s is in "+
			"dry-run, and would deny its eviction if enforced",
			pod.Namespace, pod.Name, node.Name, strings.Join(names, ", ")))
	}
	return response
}

// partial is the part of a pod that the decision needs. A whole pod is much larger.
type partial struct {
	Metadata struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		UID               string            `json:"uid"`
		Annotations       map[string]string `json:"annotations"`
		DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName    string              `json:"nodeName"`
		Tolerations []corev1.Toleration `json:"tolerations"`
	} `json:"spec"`
	Status struct {
		Phase      corev1.PodPhase       `json:"phase"`
		Conditions []corev1.PodCondition `json:"conditions"`
	} `json:"status"`
}

func decode(raw []byte) (*corev1.Pod, error) {
	var p partial
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.UID = p.Metadata.Name, p.Metadata.Namespace, types.UID(p.Metadata.UID)
	pod.Annotations, pod.DeletionTimestamp = p.Metadata.Annotations, p.Metadata.DeletionTimestamp
	pod.Spec.NodeName, pod.Spec.Tolerations = p.Spec.NodeName, p.Spec.Tolerations
	pod.Status.Phase, pod.Status.Conditions = p.Status.Phase, p.Status.Conditions
	return pod, nil
}

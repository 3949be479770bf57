// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodegate/nodegate/api/v1alpha1"
	webhooks "github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
)

var denied = fleet.NewCounterByRule("node_readiness_denied_pods_total",
	"Pods that were refused on a node because a rule with podAdmission: Deny holds it.")

// Webhook is the validating webhook for pods that get a node.
type Webhook struct {
	// Rules returns the current snapshot of all rules.
	Rules func() *ruleset.Set
	// Nodes reads nodes from a cache.
	Nodes client.Reader
	// Pods reads a pod from the API server.
	Pods client.Reader
}

// Path implements admission.Handler.
func (*Webhook) Path() string { return "/validate-bindings" }

// Handle implements admission.Handler.
func (w *Webhook) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create {
		return admission.Allowed("")
	}
	target, pod, err := read(&req)
	if err != nil {
		return webhooks.Unreadable("pod", err)
	}
	holding := w.holding(ctx, target)
	if len(holding) == 0 {
		return admission.Allowed("")
	}
	if pod == nil { // a binding says only where to
		pod = &corev1.Pod{}
		if err := w.Pods.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, pod); err != nil {
			log.FromContext(ctx).Error(err, "Cannot read a pod, so its binding was allowed", "namespace", req.Namespace, "pod",
				req.Name, "node", target)
			return admission.Allowed("")
		}
	}
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static { // it runs already
		return admission.Allowed("")
	}
	var reasons []string
	for _, rule := range holding {
		if evidence.Toleration(pod.Spec.Tolerations, rule.Taint) == nil {
			reasons = append(reasons, fmt.Sprintf("rule %s holds it, and the pod does not tolerate %s", rule.Name,
				rule.Taint.ToString()))
			if req.DryRun == nil || !*req.DryRun {
				denied.WithLabelValues(rule.Name).Inc()
			}
		}
	}
	if len(reasons) == 0 {
		return admission.Allowed("")
	}
	return admission.Denied(fmt.Sprintf("pod %s/%s cannot run on node %s yet: %s", req.Namespace, req.Name, target,
		strings.Join(reasons, "; ")))
}

// holding returns the rules that refuse pods on a node now.
func (w *Webhook) holding(ctx context.Context, name string) []*ruleset.Rule {
	if name == "" {
		return nil
	}
	node := &corev1.Node{}
	if err := w.Nodes.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil
	}
	var out []*ruleset.Rule
	for _, rule := range w.Rules().All() {
		if rule.Spec.PodAdmission == v1alpha1.PodAdmissionDeny && nodeview.Find(node, rule.Taint) != nil &&
			(rule.Mode == ruleset.Enforced && rule.Matches(node.Labels) || rule.Inert() && holdsStill(rule, node)) {
			out = append(out, rule)
		}
	}
	return out
}

// holdsStill reports whether a frozen or suspended rule holds a node: it goes on if the node's labels change, unless it
// is in dry-run.
func holdsStill(rule *ruleset.Rule, node *corev1.Node) bool {
	_, record, _ := nodeview.RecordOn(rule, node)
	claimed, claims := nodeview.ClaimIn(record)
	return !rule.Withdrawn() && (rule.Matches(node.Labels) || claims && claimed.MatchTaint(rule.Taint))
}

// read returns the name of the node that a pod gets, and the pod if the review has it.
func read(req *admission.Request) (target string, pod *corev1.Pod, err error) {
	if len(req.Object.Raw) == 0 {
		return "", nil, errors.New("the request has no object")
	}
	switch req.Kind.Kind {
	case "Pod":
		pod = &corev1.Pod{}
		err = json.Unmarshal(req.Object.Raw, pod)
		return pod.Spec.NodeName, pod, err
	case "Binding": // of pods/binding, or of the older resource bindings, which does the same
		binding := &corev1.Binding{}
		err = json.Unmarshal(req.Object.Raw, binding)
		return binding.Target.Name, nil, err
	}
	return "", nil, nil
}

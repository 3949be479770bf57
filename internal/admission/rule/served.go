// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

// Serving is what the operator knows about what serves rules.
type Serving struct {
	// AgentNamespace is the namespace of the node agents, or "" if the operator writes no configuration for them.
	AgentNamespace string
	// Configuration is the name of the webhooks' configurations, or "" if the operator serves no webhooks.
	Configuration string
	// Engine reports whether nodes are tainted at admission.
	Engine func() bool
}

// bindingWebhook is the name of the webhook for rules with podAdmission: Deny.
const bindingWebhook = "bindings.webhooks.nodegate.io"

// Running finds the same as Served, and the DaemonSets that may provide the evidence of the rules. Without webhooks,
// the operator may not list those.
func (c *Cluster) Running(ctx context.Context, rules ...*ruleset.Rule) (lint.Served, error) {
	out, err := c.Served(ctx, rules...)
	if err != nil || c.Serving == nil || c.Serving.Configuration == "" || !slices.ContainsFunc(rules, lint.Provided) {
		return out, err
	}
	if out.DaemonSets, err = c.daemonSets(ctx, metav1.NamespaceAll); apierrors.IsForbidden(err) {
		err = nil
	}
	return out, err
}

// Served finds what runs in the cluster, as far as one of the rules needs it.
func (c *Cluster) Served(ctx context.Context, rules ...*ruleset.Rule) (lint.Served, error) {
	out := lint.Served{}
	if slices.ContainsFunc(rules, lint.NeedsAgents) {
		namespace := metav1.NamespaceAll
		if c.Serving != nil {
			namespace = c.Serving.AgentNamespace
		}
		agents := &corev1.PodList{}
		if c.Serving == nil || namespace != "" {
			if err := c.Live.List(ctx, agents, client.InNamespace(namespace), client.Limit(1),
				client.MatchingFields{"status.phase": string(corev1.PodRunning)}, client.MatchingLabels{
					"app.kubernetes.io/name": "nodegate", "app.kubernetes.io/component": "agent"}); err != nil {
				return out, fmt.Errorf("looking for node agents: %w", err)
			}
		}
		out.Agents = new(len(agents.Items) > 0)
	}
	if c.Serving == nil {
		return out, nil
	}
	out.NodeAdmission = new(c.Serving.Engine())
	if !slices.ContainsFunc(rules, func(r *ruleset.Rule) bool {
		return r.Spec.PodAdmission == v1alpha1.PodAdmissionDeny
	}) {
		return out, nil
	}
	installed := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if name := c.Serving.Configuration; name != "" {
		if err := c.Live.Get(ctx, client.ObjectKey{Name: name}, installed); client.IgnoreNotFound(err) != nil {
			return out, fmt.Errorf("looking for the webhook for pods: %w", err)
		}
	}
	out.PodAdmission = new(slices.ContainsFunc(installed.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool {
		return w.Name == bindingWebhook
	}))
	return out, nil
}

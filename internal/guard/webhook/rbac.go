// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

// The permissions of the eviction guard. "make manifests" writes them to config/components/webhooks/role.yaml.
//
// The operator checks that the API server calls the webhook for the guarded users. It does not change the webhook.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=nodegate-webhook,verbs=get
//
// When a guard has ended, the operator finishes its evictions: it sets DisruptionTarget on the pods and deletes them.
// +kubebuilder:rbac:groups="",resources=pods,verbs=delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
//
// Whether the node controller has a service account. Permissions in kube-system alone would need a role in that
// namespace.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,resourceNames=node-controller,verbs=get

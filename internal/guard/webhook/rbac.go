// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

// What the eviction guard needs, and no more; with the webhooks' other rights in config/webhook/role.yaml.
//
// The users whom rules name are written into the match conditions of one webhook.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=nodegate-webhook,verbs=get;patch
//
// When a hold ends its evictions are finished: the pods of the node are announced as disrupted, and deleted.
// +kubebuilder:rbac:groups="",resources=pods,verbs=delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
//
// Whether the node controller has an account of its own. It is looked for in kube-system; a right in that namespace alone would
// need a role there.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,resourceNames=node-controller,verbs=get

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

// The permissions for the webhooks' certificate. "make manifests" writes them to config/components/webhooks/role.yaml.
//
// The certificate and its authority are in one Secret of the operator's own namespace. A server-side apply, which is a
// patch, writes it, and creates it again if it was deleted.
// +kubebuilder:rbac:groups="",namespace=nodegate-system,resources=secrets,resourceNames=nodegate-webhook-cert,verbs=get;list;watch;create;patch
//
// The operator writes the authority into the webhook configurations. It watches them, because applying the manifests
// again removes the authority.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=nodegate-webhook,verbs=get;list;watch;update

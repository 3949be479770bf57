// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

// What the certificate of the webhooks needs, and no more. "make manifests" turns these markers into
// config/components/webhooks/role.yaml.
//
// The certificate and its authority are in one Secret of the operator's own namespace, which comes with the manifests.
// The library watches by namespace: a watch cannot be limited to a name.
// +kubebuilder:rbac:groups="",namespace=nodegate-system,resources=secrets,verbs=list;watch
// +kubebuilder:rbac:groups="",namespace=nodegate-system,resources=secrets,resourceNames=nodegate-webhook-cert,verbs=get;update
//
// Whom to trust is written into the webhook configurations. They are watched, since whoever applies them again takes it
// out.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=nodegate-webhook,verbs=update

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

// What warnings need beside what the operator may read anyway: whether the pods that a rule waits for tolerate its
// taint. "make manifests" turns these markers into config/components/webhooks/role.yaml.
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=list

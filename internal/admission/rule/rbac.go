// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

// The permissions for warnings, in addition to the operator's own: warnings say whether the pods that a rule waits for
// tolerate its taint. "make manifests" writes them to config/components/webhooks/role.yaml.
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=list

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eviction is the controller that evicts pods after an eviction guard has ended. Kubernetes does not try again
// to evict a pod whose eviction was denied. If a guard ends although the node is not ready, this controller evicts the
// pods that are due by the node's NoExecute taints and their own tolerations, as the node controller does, and no
// others.
//
// It stores no state: it computes from the API server which pods are due, and skips terminating pods. So it can be
// killed at any time and started elsewhere.
package eviction

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eviction is the controller that evicts pods after an eviction guard has ended. Kubernetes does not try again
// to evict a pod whose eviction was denied. If maxHoldSeconds have passed and the rule still does not hold, this
// controller evicts the pods that are due by the node's NoExecute taints and their own tolerations, as the node
// controller does, and no others.
//
// It keeps no state: it computes from the API server which pods are due, and leaves terminating pods alone. So it may
// be killed at any moment and started elsewhere.
package eviction

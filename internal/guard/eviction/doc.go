// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eviction is the controller that finishes the evictions which an eviction guard has held up: when
// maxHoldSeconds have passed and the rule still does not hold, Kubernetes does not try again. It evicts what the node's
// NoExecute taints and the pods' tolerations make due, as the node controller does, and nothing else. It keeps no
// state: what is due is computed again from the API server, and a pod that is terminating is left alone, so that it may
// be ended and started anywhere.
package eviction

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import "github.com/nodegate/nodegate/internal/fleet"

// Reason and action of events on pods.
const (
	reasonEvicted        = "Evicted"
	reasonEvictionFailed = "EvictionFailed"
	actionEvict          = "EvictPod"
)

var evictions = fleet.NewCounterByRule("node_readiness_guard_evictions_total",
	"Pods that the operator evicted after a rule's eviction guard had ended.")

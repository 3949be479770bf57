// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import "github.com/nodegate/nodegate/internal/fleet"

// Reasons and actions of events on nodes.
const (
	reasonKept  = "EndpointsKept"
	reasonEnded = "EndpointsEnded"

	actionKeep = "KeepEndpoints"
	actionEnd  = "EndEndpoints"
)

var (
	keptNodes = fleet.NewGaugeByRule("node_readiness_kept_endpoints_nodes",
		"Nodes that are not ready, and whose pods stay ready because a rule has found an outage (evictionGuard.endpoints).")
	markedPods = fleet.NewCounterByRule("node_readiness_kept_endpoints_ended_pods_total",
		"Pods that the operator marked not ready, because they are kept ready no longer (evictionGuard.endpoints).")
)

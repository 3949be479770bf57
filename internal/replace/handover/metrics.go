// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
)

// Reasons and actions of events on nodes.
const (
	reasonHandedOver = "HandedOver"
	actionReplace    = "Replace"
)

var (
	replacements = fleet.NewCounterByRule("node_readiness_replacements_total",
		"Nodes that a rule handed over for replacement, by method, Annotation or NodeClaim, and result: done or failed.",
		fleet.Label{Name: "method", Values: []string{
			string(v1alpha1.ReplaceMethodAnnotation), string(v1alpha1.ReplaceMethodNodeClaim)}},
		fleet.Label{Name: "result", Values: []string{"done", "failed"}})
	replacementsExhausted = fleet.NewGaugeByRule("node_readiness_replacements_exhausted",
		"1 for a rule that replaces nodes and has stopped, because several in a row did not help; otherwise 0.")
)

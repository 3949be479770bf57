// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

// Problem is the reason why a rule's guard may not work.
type Problem struct{ Reason, Message string }

// Reasons why a guard may not work.
const (
	ReasonWebhookOff     = "WebhookOff"
	ReasonWebhookMissing = "WebhookMissing"
	ReasonNotLookedAt    = "NotLookedAt"
	ReasonUnknownUser    = "UnknownUser"
	ReasonGuardBypassed  = "GuardBypassed"
	// ReasonNoEndpointPolicy: evictions are denied, but no policy keeps endpoints.
	ReasonNoEndpointPolicy = "NoEndpointPolicy"
	// ReasonEndpointsIncomplete: endpoints work, but not for all nodes or pods of the rule.
	ReasonEndpointsIncomplete = "EndpointsIncomplete"
)

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

// Problem is why a rule's guard cannot be relied on.
type Problem struct{ Reason, Message string }

// Reasons why a guard cannot be relied on.
const (
	ReasonWebhookOff     = "WebhookOff"
	ReasonWebhookMissing = "WebhookMissing"
	ReasonNotLookedAt    = "NotLookedAt"
	ReasonUnknownUser    = "UnknownUser"
	ReasonGuardBypassed  = "GuardBypassed"
)

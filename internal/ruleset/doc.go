// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ruleset validates NodeReadinessRules and compiles them into an immutable snapshot, the Set. It freezes rules
// that are invalid because of others, and knows on which nodes a DaemonSet belongs.
//
// It is pure: it takes the time as an argument, and knows no client, no logger and no manager.
package ruleset

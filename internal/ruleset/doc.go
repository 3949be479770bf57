// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ruleset compiles NodeReadinessRules into immutable snapshots that everything which decides reads.
//
// It is pure: it takes the time as an argument, and knows no client, no logger and no manager.
package ruleset

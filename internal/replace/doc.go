// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replace says which nodes a rule may hand over for replacement, and how many. Package handover does it.
//
// The package is pure: it takes the time and all facts as arguments, and knows no client, no logger and no manager.
package replace

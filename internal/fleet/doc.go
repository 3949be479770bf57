// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet keeps the verdicts of all rules on all nodes in memory. The node controller fills it. The rule
// controller reads the material of statuses from it, the metrics their counts, and the node controller the limit of
// each rule and what this process has observed before. The package does no I/O. After a restart it is rebuilt from the
// nodes.
//
// All metrics with a label for the rule are created here, so that those of a deleted rule are dropped in one place.
package fleet

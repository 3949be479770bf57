// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package condition judges what a rule requires of one condition of a node. It is pure.
//
// It is a part of package readiness that stands apart for the node agent: expressions, which readiness judges too,
// would cost its binary more memory than all the rest of it.
package condition

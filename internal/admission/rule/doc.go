// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rule tells the author of a rule, while it is written, what only the cluster can tell: other rules, nodes,
// pods. It warns. It refuses only what can never work and what the schema cannot see, an expression that does not
// compile and rules that require each other in a circle; never a deletion, the removal of a finalizer, or an update
// that does not touch the fault. The operator is as correct without it.
package rule

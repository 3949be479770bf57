// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutants takes pieces out of the operator, one at a time, and shows that the simulation finds each.
package mutants

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view shows a ledger to people: on a terminal as a table that is redrawn in place, elsewhere as a line for
// each change.
package view

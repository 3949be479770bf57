// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rule is the controller that looks after the rules themselves: their finalizer, and their status, which it
// writes from the fleet's memory, coalesced. It never writes a node.
package rule

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node is the controller that holds and releases nodes. For each Node it sends at most two patches: one of
// taints and records, and after it one of the conditions that rules publish, in the node's status. It gathers the
// facts, asks the pure packages gate and taints what to do, sends the patches, and reports to the fleet. It is the only
// writer of taints and of published conditions, and writes nothing else on nodes than these and its own annotations.
package node

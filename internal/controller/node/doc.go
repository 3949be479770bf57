// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node is the controller that holds and releases nodes: one Node in, at most one patch out. It gathers the
// facts, asks the pure packages readiness and taints what to do, sends the patch, and reports to the fleet. It is the
// only writer of taints, and never writes anything else than taints and its own annotations.
package node

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package taints decides what becomes of a node's taints: Decide for one rule on one node, Plan for all rules
// together, as the one JSON Patch that is to be sent, or nothing. It also owns the record, the annotation in which the
// operator remembers on the node itself what it did there, so that any state is reached again from the API server alone.
//
// It is pure: it takes the time as an argument, and knows no client, no logger and no manager. Nothing else in Nodegate
// writes taints; node.spec.taints is an atomic list, and only the guarded patch made here changes it without losing
// another writer's taint.
package taints

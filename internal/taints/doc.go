// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package taints plans what is written to a node: Plan makes one JSON Patch of the decisions of all rules, Sweep
// removes what deleted rules left, and Admit adds the taints to a request that makes a node match rules.
//
// It is pure: it takes the time as an argument, and knows no client, no logger and no manager. Nothing else in Nodegate
// writes taints; node.spec.taints is an atomic list, and only the guarded patch made here changes it without losing
// another writer's taint.
package taints

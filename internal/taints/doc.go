// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package taints plans the writes of a node. Plan makes one JSON Patch from the decisions of all rules, Sweep removes
// what deleted rules left, and Admit adds taints to a request that makes a node match rules.
//
// The package is pure: it takes the time as an argument, and knows no client, no logger and no manager. Nothing else in
// Nodegate writes taints. node.spec.taints is an atomic list: a patch replaces the whole list, so the patches made here
// test the old list, in order not to lose the taint of another writer.
package taints

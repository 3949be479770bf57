// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard decides which deletions of pods an eviction guard denies, and which pods are due for eviction when it
// has ended. Whether a guard stands on a node is decided by package taints, together with the record that keeps its
// clock.
//
// It is pure: it takes the time as an argument, and knows no client, no logger and no manager. In every doubt it denies
// nothing: a pod that is deleted too early comes back elsewhere, one that cannot be deleted blocks all others.
package guard

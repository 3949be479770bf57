// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard decides which deletions of pods an eviction guard denies, and which pods are due for eviction when it
// has ended. Package gate decides whether a guard is active on a node, and owns the record with its start and end.
//
// The package is pure: it takes the time as an argument, and knows no client, no logger and no manager. In doubt it
// denies nothing: a pod that is deleted too early is created again elsewhere, but a pod that cannot be deleted blocks
// its controller.
package guard

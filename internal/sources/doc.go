// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sources collects the evidence for requirements that is not on the Node object: pods, DaemonSets, CSI drivers
// and devices. It watches only objects that a rule requires, and caches only the fields that are needed. For each rule
// it tells whether all its evidence can be read. Package readiness evaluates the evidence.
package sources

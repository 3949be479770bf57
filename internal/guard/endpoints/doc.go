// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoints keeps pods ready while many nodes are lost at once, for rules with evictionGuard.endpoints. Package
// guard decides. The leader writes the decision into the object KeptEndpoints, which the admission policy reads, and
// marks pods not ready when they are kept no longer. The object is all of its state: a new leader continues from there.
package endpoints

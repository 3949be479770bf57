// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servedcrd finds out whether the CustomResourceDefinition that the cluster serves has all fields that this
// version writes. If it has not, as when the incumbent controller's was applied over ours, the next write of a rule would
// lose those fields: everything is frozen until it is mended.
package servedcrd

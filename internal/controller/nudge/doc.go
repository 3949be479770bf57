// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nudge lets one part of the operator queue objects of a controller in another part, by name.
package nudge

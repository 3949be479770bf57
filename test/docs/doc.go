// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs holds the documentation against the code: what the code has is documented, and what is documented is
// there.
package docs

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission serves the admission webhooks. Their handlers are in the packages below it, each a thin adapter
// over the pure packages. They answer from synced caches, on every replica.
package admission

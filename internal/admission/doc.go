// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission is what all admission webhooks have in common: how a handler is served. The handlers are in the
// packages below it, each a thin adapter over the pure packages; they answer from synced caches, on every replica.
package admission

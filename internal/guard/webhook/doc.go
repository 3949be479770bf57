// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook is the eviction guard's webhook: an adapter over package guard, which decides. It answers from
// caches, with no request to the API server, and allows what it does not understand.
package webhook

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook is the webhook of the eviction guard. Package guard makes the decisions. The webhook answers from
// caches, without a request to the API server, and allows every request that it cannot read.
package webhook

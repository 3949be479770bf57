// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api is a small API server in memory, for the simulation. It is exact where the operator depends on it:
// versions, JSON Patch, subresources, finalizers, preconditions, graceful deletion, and pruning by the served schema.
// A test compares its answers with a real server's. It imports nothing of this module and is not safe for concurrent
// use.
package api

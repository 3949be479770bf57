// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api is a small API server in memory, for the simulation. It imitates what the operator depends on: versions,
// JSON Patch, subresources, finalizers, preconditions, graceful deletion, and pruning by the served schema. It imports
// nothing of this module and is not safe for concurrent use.
package api

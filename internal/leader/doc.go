// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader writes objects of which only the leader decides. A process that leads no longer does not overwrite
// what its successor has written, and writes nothing once its lease may have expired.
package leader

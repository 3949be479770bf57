// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain explains what holds a node and why, and simulates what rules would do, by the operator's own
// decisions. All facts and the time are arguments, and it writes nothing.
package explain

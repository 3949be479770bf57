// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probes runs probes on the node and publishes what they find as conditions of the Node object. It writes
// conditions when they change or their heartbeat is due, all in one patch, and touches no condition but its own. It
// needs no more than the right to patch nodes/status.
package probes

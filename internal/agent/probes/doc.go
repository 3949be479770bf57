// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probes runs probes on the node and publishes their results as conditions of the Node object. It writes
// conditions when they change or their heartbeat is due, all in one patch, and never changes other conditions. It needs
// only the permission to patch nodes/status.
package probes

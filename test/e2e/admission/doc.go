// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission proves, with the real scheduler, that no pod gets onto a node before its rule holds there, by each
// of the engines that have nodes tainted at creation, and while the operator is killed; and that the proof can fail.
package admission

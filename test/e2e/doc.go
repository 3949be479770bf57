// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the operator's binary from the outside, on a local control plane with the real scheduler and
// controller manager: the examples as they are written, and the demo.
package e2e

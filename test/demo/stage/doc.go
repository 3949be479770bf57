// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stage is what the demo and the end-to-end tests play on: a local control plane with the operator's binary, built
// from this checkout, running against it as a process; simulated nodes; and a ledger that follows them.
package stage

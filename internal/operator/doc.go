// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operator wires one replica of the operator. New connects its parts to what surrounds them, which a simulation
// brings along as well; Run does that under a manager. Only cmd/manager and the simulation import this package.
package operator

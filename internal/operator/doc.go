// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operator wires one replica of the operator. New connects the parts to an Environment: caches, clients, a
// clock. Run takes the Environment from a controller-runtime manager; the simulation brings its own. Only cmd/manager
// and the simulation import this package.
package operator

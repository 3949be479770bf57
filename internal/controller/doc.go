// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller holds what controllers share: how they are added to a manager, a work queue that other parts of
// the operator can add to by name, and the source that puts changed rules in force.
package controller

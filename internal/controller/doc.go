// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller holds what all controllers share: a work queue that other parts of the operator can add to by
// name.
package controller

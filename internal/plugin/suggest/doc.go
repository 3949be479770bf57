// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suggest makes rules for the components that it recognizes in a cluster. It reads and writes nothing.
package suggest

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release holds the test of "make release". It starts no server, so that it runs beside tests that do.
package release

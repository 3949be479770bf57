// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rulecache keeps the compiled snapshot of all rules up to date, on every replica, and tells those who act by
// it when it has changed.
package rulecache

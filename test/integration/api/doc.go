// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api holds the tests of the CustomResourceDefinition on a real API server: what it accepts, what it refuses
// and in which words, and how rules read in kubectl. No operator runs here. One test compares the API server of the
// simulation with the real one.
package api

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says of one node what holds it and why, by the operator's own decisions made anew. It is pure: it takes
// the time and all facts as arguments, and writes nothing.
package explain

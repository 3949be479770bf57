// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulate says what rules would do to nodes, by the operator's own decisions made in advance. It is pure: it takes
// the time and all facts as arguments, and writes nothing.
package simulate

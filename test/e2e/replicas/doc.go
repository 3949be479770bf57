// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas runs two replicas of the operator on one control plane: a leader that ends, a leader that is frozen
// for longer than its lease and then resumed, and replicas of two versions, for an upgrade and the way back. The
// operator is the built binary. It contains nothing but tests.
package replicas

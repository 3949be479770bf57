// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readiness judges whether a rule holds on a node, now.
//
// It is pure: the facts and the time come in as arguments, a Verdict goes out. What is done about a verdict is not
// decided here, see package taints. Everything that acts on a node's readiness asks Evaluate, so that the taint,
// admission, the load balancers and the command line never disagree.
package readiness

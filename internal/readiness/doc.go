// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readiness evaluates the evidence of a rule on a node. Everything that acts on a node's readiness calls
// Evaluate, so that the taint, admission, the load balancers and the command line never disagree. Package gate decides
// what follows from a verdict.
//
// The package is pure: it takes the facts and the time as arguments.
package readiness

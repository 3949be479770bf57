// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expression compiles and evaluates the CEL expressions of rules: over one variable, node, with the functions
// that Kubernetes offers in its own CEL expressions, and a bool as the result.
//
// It is pure. What an expression may read of a node is declared in node.go: a field that is not there is refused when
// the rule is admitted, and what is there is what the operator caches.
package expression

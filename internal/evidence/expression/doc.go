// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expression compiles and evaluates the CEL expressions of rules. They have one variable, node, and the
// functions of CEL expressions in Kubernetes. The result is a bool.
//
// The package is pure. node.go declares the fields of a node that an expression may read. Compile refuses other fields.
// The operator's cache keeps all declared fields.
package expression

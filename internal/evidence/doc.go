// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence knows the kinds of evidence that a rule can require. Each kind has a file of its own: how a
// requirement is compiled, how it is judged on a node, and the words for what was found. Package condition judges the
// conditions of a node, and package expression CEL. Package sources reads what is not on the Node object.
//
// The package is pure: it takes the facts and the time as arguments. It does not know rules: it gets the rule's own
// taint, and a function that says which rule manages a taint.
package evidence

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint warns of rules that are valid and still will not do what their author wants: the rules webhook says so
// when a rule is written, and "kubectl nodegate lint" before that. It refuses nothing; what makes a rule invalid is
// found by package ruleset.
//
// It is pure: what is known of the cluster is an argument, and all of it may be missing.
package lint

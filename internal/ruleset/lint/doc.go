// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint finds rules that are valid but probably wrong. The webhook for rules warns when a rule is written, and
// "kubectl nodegate lint" before that. Package ruleset finds invalid rules.
//
// The package is pure: the facts about the cluster are arguments, and all of them may be missing.
package lint

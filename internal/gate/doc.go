// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gate makes the decisions about a node under all its rules, with one time for all: DecideNode evaluates the
// evidence of each rule, lets package state decide, and asks the limit. The operator and kubectl nodegate both use it,
// so that the plugin shows what the operator does. Package taints turns the decisions into a patch.
//
// The package is pure: it takes the time and all evidence as arguments, and knows no client, no logger and no manager.
package gate

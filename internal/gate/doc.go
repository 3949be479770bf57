// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gate makes the decisions about a node under its rules: whether each rule holds the node or releases it.
// DecideNode decides for all rules with one time, Decide for one rule. The operator and kubectl nodegate both use it,
// so that the plugin shows what the operator does.
//
// The package owns the record: the annotation on the node in which the operator stores what it did there. After a
// restart the operator needs only the API server to continue. Package taints turns the decisions into a patch.
//
// The package is pure: it takes the time and all evidence as arguments, and knows no client, no logger and no manager.
package gate

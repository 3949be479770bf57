// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gate decides what becomes of one node under its rules. DecideNode decides for all rules at one moment, Decide
// for one rule. The operator and kubectl nodegate both decide here, so that the plugin says what the operator does.
//
// The package owns the record, the annotation in which the operator remembers on the node itself what it did there, so
// that any state is reached again from the API server alone. Package taints writes what is decided here.
//
// It is pure: it takes the time and all facts as arguments, and knows no client, no logger and no manager.
package gate

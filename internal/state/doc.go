// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state decides the state of a node under one rule: whether the rule holds the node, releases it or lets it
// pass, and what the record says of that. Package gate decides for all rules of a node.
//
// The package is pure: it takes the time and all evidence as arguments, and knows no client, no logger and no manager.
package state

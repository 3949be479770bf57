// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decide decides about one node by all rules, at one moment: what the operator does, and what kubectl nodegate
// says that it does or would do, is the same because it is decided here.
//
// It is pure: it takes the time and all facts as arguments, and knows no client, no logger and no manager.
package decide

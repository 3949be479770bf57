// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeview reads what a node itself says about a rule: its record there, the state that follows, the override
// and the conditions that the operator has published. A record is decoded when it is asked for, and never all of a node
// to read one.
//
// The package owns the record: the annotation on the node in which the operator stores what it did there. After a
// restart the operator needs only the API server to continue.
//
// The package is pure: it takes the time and all evidence as arguments, and knows no client, no logger and no manager.
package nodeview

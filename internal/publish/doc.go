// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publish decides about the node conditions that rules publish: what each says, who publishes it, and the patch
// of the node's status that makes the changes. controller/node writes it.
//
// The package is pure: it takes the time and all decisions as arguments, and knows no client, no logger and no manager.
package publish

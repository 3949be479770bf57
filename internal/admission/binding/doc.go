// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding refuses, for rules with podAdmission: Deny, to bind a pod to a node that the rule holds, or to create
// it there, where the pod does not tolerate the rule's taint: a client that sets a node's name itself bypasses the
// scheduler, but not past this. It answers from the node cache; only where a node is held it asks for the pod. In doubt
// it allows.
package binding

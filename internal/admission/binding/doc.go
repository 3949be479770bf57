// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding is the webhook for rules with podAdmission: Deny. It refuses to bind a pod to a node that such a rule
// holds, or to create the pod there, unless the pod tolerates the rule's taint. A client that sets the node's name
// itself bypasses the scheduler, but not this webhook. The webhook answers from the node cache, and reads the pod only
// if the node is held. In doubt it allows.
package binding

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node taints nodes at admission: the request that makes a node match a rule stores the node with the rule's
// taint. There are two engines: the admission policy of config/node-admission-policy, which the API server evaluates
// itself, and the webhook of this package. Engine detects which one is active. The controller taints a node that both
// have missed shortly after.
package node

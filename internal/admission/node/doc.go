// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node has nodes born gated: the request that makes a node match a rule stores it with the rule's taint. There
// are two engines for that, and Engine tells which one is at work: the admission policy of
// config/node-admission-policy, which the API server carries out by itself, or the webhook of this package.
// What both miss the controller holds a moment later.
package node

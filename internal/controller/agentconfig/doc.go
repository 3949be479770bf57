// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentconfig is the controller that compiles the node agents' configuration from all rules, and keeps it in
// one ConfigMap. It reads no other ConfigMap.
package agentconfig

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentconfig is the controller that writes the node agents' configuration, compiled from all rules, into one
// ConfigMap, and keeps it as it is. It writes nothing else, and reads no other ConfigMap.
package agentconfig

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config has the configuration of the node agents: one file for all agents. The operator compiles it from the
// rules, in controller/agentconfig. Each agent selects the rules that match the labels of its node. Loader reads the
// file again when it changes.
package config

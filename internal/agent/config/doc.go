// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config has the configuration of the node agents: one file for all agents, compiled from the rules. Each agent
// selects the rules that match the labels of its node. Compile and Select are pure. Loader reads the file again when it
// changes.
package config

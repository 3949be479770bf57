// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet keeps the verdicts of all nodes in memory: what every rule's status is written from, the two numbers
// of every rule's limit, and since when this process has seen what. It is filled by the node controller and read by
// the rule controller and the metrics; it reads and writes nothing else, and is rebuilt from the nodes after a restart.
package fleet

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config is the node agents' configuration: one file for all of them, compiled from the rules, from which each
// agent picks what matches the labels of its own node. Compile and Select are pure; Loader reads the file again when it
// changes.
package config

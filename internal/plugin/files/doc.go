// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package files reads rules, nodes and evidence from files, directories, URLs and standard input, and checks rules as the API
// server does, without one.
package files

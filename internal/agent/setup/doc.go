// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package setup makes an agent's checks and probes of the rules that match its node. It runs nothing.
package setup

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checks are the checks of the node agent: what /health answers from, and what probes may publish as node
// conditions. One file is one check. Each has a time limit of its own and runs at most once at a time, however many ask
// for it, so that neither a flood of requests nor a filesystem that hangs makes work pile up.
//
// Checks look at the node; they change nothing, and they ask the API server nothing: what they need of the node's
// object they are given as a snapshot.
package checks

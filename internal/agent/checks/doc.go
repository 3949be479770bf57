// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checks has the checks of the node agent. /health answers with their results, and probes publish them as node
// conditions. Each file has one check. A check has its own time limit and never runs twice at the same time, so that
// neither many requests nor a filesystem that hangs lets work pile up.
//
// Checks change nothing on the node, except the write test of filesystem_ro. They send no requests to the API server:
// they get a snapshot of the Node object.
package checks

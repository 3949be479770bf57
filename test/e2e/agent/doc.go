// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent holds the node agent's binary to what it promises: beside a real API server that comes and goes, behind
// a real HAProxy, and under requests that mean it no good.
package agent

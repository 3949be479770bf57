// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serverclock tells the time, and when a lease was renewed, by the API server's clock, which may differ from
// that of this machine. Times in objects are by that clock if the API server, or the node controller, wrote them.
package serverclock

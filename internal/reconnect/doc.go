// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reconnect makes informers that are back within seconds of an API server that was away. Those of client-go
// double their wait with each attempt that fails, up to a minute: after a long outage nothing would be gated for that
// long, although each replica has but a handful of watches and need not spare the server.
package reconnect

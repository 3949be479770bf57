// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health tells external load balancers whether the node is ready: over HTTP, like the harmony node readiness
// endpoint (/health with check=), and with HAProxy's agent-check protocol. It never redirects, does not authenticate
// clients, limits the cost of a request, and marks answers that are only assumptions.
package health

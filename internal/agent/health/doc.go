// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health answers external load balancers about the node: over HTTP as the harmony node readiness endpoint does
// (/health with check=), and by HAProxy's agent-check protocol. It never redirects, does not authenticate
// clients, bounds what a request may cost, and shows where an answer is but an assumption.
package health

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps book of nodes and pods as the API server's watches tell of them, and finds pods that were bound to
// a node before its gate was open. It imports no client and knows nothing of the operator: it is the demo's and the
// end-to-end tests' own judgement of what the operator does.
package ledger

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger records the versions of nodes and pods that the API server's watches report, and finds pods that were
// bound to a node before its gate was open. It knows nothing of the operator: it is the tests' and the demo's own
// judgement of what the operator does.
package ledger

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limit counts the nodes in service that a rule holds, in each failure domain, and says whether it may hold one
// more. It also says which of the nodes that wait is next, and keeps the places of nodes that were deleted while they
// were held.
//
// The package is pure and has no lock: nodes are numbers, and package fleet, which knows their names, holds the lock.
// Times of rates and of deleted nodes are by the API server's clock.
package limit

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package serverclock

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Renewed returns when a lease was renewed last. That is the API server's time of the last write, because the time in
// the lease is by its holder's clock. If the API server does not say when the lease was written, the time in the lease
// counts. It is zero if there is none.
func Renewed(lease *coordinationv1.Lease) (at time.Time) {
	for _, m := range lease.ManagedFields {
		if m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	if own := lease.Spec.RenewTime; at.IsZero() && own != nil {
		at = own.Time
	}
	return at
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionrules

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Lease is the lease by which replicas elect a leader.
type Lease struct {
	client.ObjectKey
	// Labels are the labels that this process sets when it takes the lease. Each process has other values.
	Labels map[string]string
}

var errDeposed = errors.New("this process leads no longer: another one has the lease")

// Held returns an error unless this process has the lease.
func (l *Lease) Held(ctx context.Context, reader client.Reader) error {
	lease := &coordinationv1.Lease{}
	if err := client.IgnoreNotFound(reader.Get(ctx, l.ObjectKey, lease)); err != nil {
		return fmt.Errorf("reading the lease: %w", err)
	}
	for key, value := range l.Labels {
		if lease.Labels[key] != value || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			return errDeposed
		}
	}
	return nil
}

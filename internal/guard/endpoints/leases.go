// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/serverclock"
)

// leases reads the leases of all nodes at most once.
type leases struct {
	read   func() (map[string]guard.Lease, error)
	looked bool
	nodes  map[string]guard.Lease
}

func (l *leases) get(out *error) map[string]guard.Lease {
	if !l.looked {
		var err error
		l.looked = true
		if l.nodes, err = l.read(); err != nil {
			*out = errors.Join(*out, err)
		}
	}
	return l.nodes
}

// leases returns what the leases of nodes say at a time, when that is needed: a watch of all leases would bring a
// thousand changes in a second from ten thousand nodes.
func (k *Keeper) leases(ctx context.Context, now time.Time) *leases {
	return &leases{read: func() (map[string]guard.Lease, error) {
		list, err := k.listLeases(ctx)
		if err != nil {
			return nil, err
		}
		out := make(map[string]guard.Lease, len(list.Items))
		for i := range list.Items {
			out[list.Items[i].Name] = says(&list.Items[i], now)
		}
		return out, nil
	}}
}

func (k *Keeper) listLeases(ctx context.Context, opts ...client.ListOption) (*coordinationv1.LeaseList, error) {
	list := &coordinationv1.LeaseList{}
	err := k.Live.List(ctx, list, append(opts, client.InNamespace(corev1.NamespaceNodeLease))...)
	return list, k.failed(leasing, "", "listing the leases of nodes", err)
}

// says returns what a lease says: it is silent after 30 s and expired after 40 s by default.
func says(lease *coordinationv1.Lease, now time.Time) guard.Lease {
	valid := defaultLease
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		valid = time.Duration(*seconds) * time.Second
	}
	switch age := now.Sub(serverclock.Renewed(lease)); {
	case age > valid:
		return guard.LeaseExpired
	case age > valid*3/4:
		return guard.LeaseSilent
	}
	return guard.LeaseRenewed
}

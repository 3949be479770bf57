// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package apigroup

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRenewed: the holder writes its own time into the lease, and its clock may be wrong.
func TestRenewed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	// lease is one whose time is of an age by its holder's clock, and by the API server's, if that is not negative.
	lease := func(holder, namespace string, own, written time.Duration) coordinationv1.Lease {
		l := coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder,
			RenewTime: &metav1.MicroTime{Time: now.Add(-own)}}}
		l.Namespace = namespace
		if written >= 0 {
			l.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: now.Add(-time.Hour)}},
				{Time: &metav1.Time{Time: now.Add(-written)}}}
		}
		return l
	}
	type leases = []coordinationv1.Lease
	never := lease("a", "system", 0, 0)
	never.Spec.RenewTime = nil
	for name, c := range map[string]struct {
		leases leases
		last   string // its namespace
		leads  bool
	}{
		"renewed":                   {leases{lease("a", "system", time.Second, time.Second)}, "system", true},
		"renewed, clock behind":     {leases{lease("a", "system", 90*time.Second, time.Second)}, "system", true},
		"renewed, clock far ahead":  {leases{lease("a", "system", -24*time.Hour, time.Second)}, "system", true},
		"almost too old":            {leases{lease("a", "system", time.Hour, 59*time.Second)}, "system", true},
		"no longer":                 {leases{lease("a", "system", time.Minute, time.Minute)}, "system", false},
		"no longer, clock ahead":    {leases{lease("a", "system", -time.Hour, time.Minute)}, "system", false},
		"given back":                {leases{lease("", "system", time.Second, time.Second)}, "system", false},
		"never renewed":             {leases{never}, "", false},
		"of a node":                 {leases{lease("a", "kube-node-lease", time.Second, time.Second)}, "", false},
		"none":                      {},
		"without the server's time": {leases{lease("a", "system", 59*time.Second, -1)}, "system", true},
		"too old without it":        {leases{lease("a", "system", time.Minute, -1)}, "system", false},
		"one that leads, and one that did, with a clock ahead": {leases{lease("a", "old", -time.Hour, time.Minute),
			lease("b", "system", 90*time.Second, time.Second)}, "system", true},
	} {
		t.Run(name, func(t *testing.T) {
			last, leads := Renewed(c.leases, now)
			got := ""
			if last != nil {
				got = last.Namespace
			}
			if got != c.last || leads != c.leads {
				t.Errorf("the last lease is of %q and leads: %t, want %q, %t", got, leads, c.last, c.leads)
			}
		})
	}
}

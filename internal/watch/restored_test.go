// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// versions answers each list with the next version, or with an error for "". The last one is repeated.
type versions struct {
	client.Reader
	next []string
}

func (v *versions) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	version := v.next[0]
	v.next = v.next[min(1, len(v.next)-1):]
	if version == "" {
		return errRefused
	}
	list.SetResourceVersion(version)
	return nil
}

func TestRestored(t *testing.T) {
	for name, c := range map[string]struct {
		versions []string
		ends     bool
	}{
		"nothing changes":               {versions: []string{"9"}},
		"an outage":                     {versions: []string{"9", "", "10"}},
		"an outage before the start":    {versions: []string{"", "10"}},
		"etcd was restored":             {versions: []string{"9", "10", "9"}, ends: true},
		"etcd was restored, and slowly": {versions: []string{"10", "", "", "9"}, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := (&Restored{Live: &versions{next: c.versions}}).Start(ctx)
				if (err != nil) != c.ends {
					t.Errorf("it ends with %v, want an error: %v", err, c.ends)
				}
			})
		})
	}
}

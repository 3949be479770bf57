// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// askVersion is how often the version of the API server's data is read.
const askVersion = 5 * time.Second

// Restored ends this replica after etcd was restored from an older snapshot. The watches of the informers wait for
// changes after the version that they know, and get none before the restored data has reached that version: for hours,
// no node would be tainted or released. The next start reads everything again.
type Restored struct{ Live client.Reader }

// Start implements manager.Runnable.
func (r *Restored) Start(ctx context.Context) error {
	for last := int64(0); ; {
		version, err := r.version(ctx)
		switch {
		case err != nil:
			log.FromContext(ctx).V(2).Info("Cannot read the version of the API server's data", "error", err.Error())
		case version < last:
			return fmt.Errorf("etcd was restored from an older snapshot (version %d after %d): start again to read all "+
				"objects", version, last)
		default:
			last = version
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askVersion):
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: the caches of every replica are too new.
func (*Restored) NeedLeaderElection() bool { return false }

// version returns the version of a consistent read, which never decreases, regardless of which API server answers.
func (r *Restored) version(ctx context.Context) (int64, error) {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := r.Live.List(ctx, nodes, client.Limit(1)); err != nil {
		return 0, err
	}
	return strconv.ParseInt(nodes.ResourceVersion, 10, 64)
}

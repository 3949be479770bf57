// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionrules

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// gather is how long the writer waits for more rules before it adds a rule to the object.
	gather = 50 * time.Millisecond
	// again is how long the writer waits after an error. It doubles, up to inspect.
	again = time.Second
	// inspect is how often the writer reads the object, although nothing has changed.
	inspect = 30 * time.Second
)

// Start implements manager.Runnable. It runs while this replica leads.
func (w *Writer) Start(ctx context.Context) error {
	for wait, failed := inspect, again; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Woken():
			wait = gather
		case <-time.After(wait):
			err := w.Write(ctx)
			if err == nil || ctx.Err() != nil {
				wait, failed = inspect, again
				continue
			}
			if errors.Is(err, errOtherGroup) { // the next start is refused
				return err
			}
			log.FromContext(ctx).Error(err, "Cannot write the rules for admission")
			wait, failed = failed, min(2*failed, inspect)
		}
	}
}

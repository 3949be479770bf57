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
	due, gathering, failed := time.NewTimer(inspect), false, again
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Woken():
			if !gathering { // rules that change all the time must not put off the write
				gathering = true
				due.Reset(gather)
			}
		case <-due.C:
			gathering = false
			err := w.Write(ctx)
			if err == nil || ctx.Err() != nil {
				failed = again
				due.Reset(inspect)
				continue
			}
			if errors.Is(err, errOtherGroup) { // the next start is refused
				return err
			}
			log.FromContext(ctx).Error(err, "Cannot write the rules for admission")
			due.Reset(failed)
			failed = min(2*failed, inspect)
		}
	}
}

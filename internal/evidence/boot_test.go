// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"testing"
	"time"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/test/build"
)

// TestAskAgainWhenTheBootMayBeConfirmed: two minutes after the operator saw it, and then often.
func TestAskAgainWhenTheBootMayBeConfirmed(t *testing.T) {
	boot := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after, heartbeat, again time.Duration // 0: confirmed
	}{
		{after: time.Second, heartbeat: 0, again: 2 * time.Minute},
		{after: 119 * time.Second, heartbeat: 119 * time.Second, again: 2 * time.Minute},
		{after: 2 * time.Minute, heartbeat: 119 * time.Second, again: 150 * time.Second},
		{after: 2 * time.Minute, heartbeat: 2 * time.Minute},
	} {
		node := build.MakeNode("n").Condition("Ready", "True", boot).Heartbeat("Ready", boot.Add(c.heartbeat)).Obj()
		ok, at := evidence.BootConfirmed(node, evidence.Boot{Bound: boot, SeenAt: boot}, boot.Add(c.after))
		if ok != (c.again == 0) || !ok && !at.Equal(boot.Add(c.again)) {
			t.Errorf("after %s: confirmed is %t, ask again at %s", c.after, ok, at)
		}
	}
}

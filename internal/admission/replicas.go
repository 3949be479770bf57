// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import "context"

// EveryReplica is a runnable that runs on every replica, not only on the leader.
type EveryReplica func(context.Context) error

// Start implements manager.Runnable.
func (f EveryReplica) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (EveryReplica) NeedLeaderElection() bool { return false }

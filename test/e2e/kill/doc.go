// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kill proves that the operator can be killed anywhere: its binary runs against a real control plane and is
// ended with SIGKILL before or after a write of its own, of each kind, again and again, while people edit rules and
// nodes and another client keeps writing taints. Whenever nothing changes any more, the taints are what the pure
// packages compute from a fresh list, and no taint of another client is lost. This holds also after an outage of the
// API server.
//
// What happens in a round follows from a seed, which a failure names; when exactly it happens does not, since processes
// race. It contains nothing but tests. Variables of the environment:
//
//	NODEGATE_KILL_SEED         the seed; by default another one each time
//	NODEGATE_KILL_ROUNDS       rounds with one replica; by default 42, some two seconds each
//	NODEGATE_KILL_PAIR_ROUNDS  rounds with two replicas that elect a leader; by default 10, some five seconds each
//	NODEGATE_KILL_OUTAGE       for how long the API server is away; by default 60s, meanwhile other tests run
package kill

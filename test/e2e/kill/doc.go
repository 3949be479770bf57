// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kill shows on real processes what the simulation shows for many more stories: the operator can be killed
// anywhere. Its binary is ended with SIGKILL before and after a write of each kind, alone and as one of two replicas,
// while another client writes taints, nodes are replaced, and a rule is deleted and created again. The API server is
// frozen, and is away for longer than the leader's lease. Afterwards taints, records and statuses are as the last
// reports say. At no time is a taint of another client lost, or a limit exceeded, and only the leader writes.
//
// It contains nothing but tests.
package kill

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watch follows what every replica needs to know: Rules is the compiled snapshot of all rules, FollowCRD
// freezes them while the served CRD lacks fields of this version, and NewInformer makes informers that reconnect within
// seconds.
package watch

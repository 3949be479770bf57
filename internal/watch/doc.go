// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watch keeps what every replica needs to know, whether it leads or not. Rules is the compiled snapshot of all
// rules. FollowCRD freezes the rules while the served CRD lacks fields of this version, and Incumbents while another
// controller acts on them. In Nodegate's own API group, Foreign freezes those with a taint of another controller.
// Restored ends a replica after a restore of etcd. NewInformer makes informers that reconnect within seconds, and
// LeanNodes one for nodes that decodes only the fields that rules read.
package watch

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster starts and stops a real Kubernetes control plane for the demo, the tests and the
// benchmarks: etcd, kube-apiserver and, as asked for, kube-controller-manager, kube-scheduler and kwok, which
// plays the kubelets. Authentication and authorization are those of a real cluster: client certificates of the
// cluster's own CA, RBAC, the Node authorizer and NodeRestriction, one service account for each controller.
//
// Everything listens on loopback or on sockets in the cluster's own directory, and ends with the process that
// started it, also when that process is killed: see guard.
//
// It runs no containers and never touches a cluster that it did not start.
package cluster

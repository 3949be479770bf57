// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package realnode runs real Kubernetes nodes on this machine, with real pods: containerd, kubelet and kube-proxy, each
// node in mount, network, IPC and UTS namespaces of its own, beside a control plane of test/cluster. There is no
// registry: the images are made here and imported.
//
// All of it, the tests too, runs in one PID namespace that ends with the process that began it, and in a network
// namespace from which nothing gets out. Nothing of it meets the host but cgroups and a temporary directory, which a
// guard removes also when everything is killed.
//
// It needs root, Linux, and containerd, runc, the CNI plugins, iptables, conntrack and iproute2. Unavailable says what
// is missing.
package realnode

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command assets makes sure of the binaries of a real Kubernetes control plane: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl and kwok, and with -node also kubelet and kube-proxy.
// The last line it prints to stdout is the directory they are in; everything else goes to stderr.
//
// They are built from the Go modules pinned in controlplane/go.mod, so nothing but a Go module proxy has to
// be within reach. With -kubernetes=1.32 the control plane is that of kubernetes/1.32/go.mod, which pin.sh has written.
// The binaries are kept in the user's cache under a name made of what determines them, so that the
// next checkout finds them. Where envtest's own download works it is used for what it offers. If KUBEBUILDER_ASSETS
// is set and has all the binaries, it is used instead, except with -kubernetes.
//
// It imports nothing but the standard library: it must start at once and without a network.
package main

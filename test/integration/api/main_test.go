// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"testing"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/test/cluster"
)

var (
	clusters = cluster.Shared(func(ctx context.Context) (*cluster.Cluster, error) {
		return cluster.Start(ctx, cluster.Options{CRD: true})
	})
	// server is the API server, and kube a client that asks for strict field validation.
	server *cluster.Cluster
	kube   client.Client
)

func TestMain(m *testing.M) {
	logf.SetLogger(klog.Background())
	clusters.Main(m, func(c *cluster.Cluster) {
		server, kube = c, client.WithFieldValidation(c.Client, "Strict")
	})
}

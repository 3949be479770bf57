// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite gives the Ginkgo suites of controllers and webhooks their API server.
package suite

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/nodegate/nodegate/test/cluster"
)

// Server starts an API server with the CRD that ends with the suite. Call it in the suite's BeforeSuite; what must end
// before the server is cleaned up by a DeferCleanup after the call.
func Server() *cluster.Cluster {
	ginkgo.GinkgoHelper()
	gomega.SetDefaultEventuallyTimeout(cluster.Limit)
	gomega.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	return cluster.ForTest(ginkgo.GinkgoTB(), cluster.Options{CRD: true})
}

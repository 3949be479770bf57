// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite is what the Ginkgo suites of controllers and webhooks have in common.
package suite

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/nodegate/nodegate/test/cluster/apiserver"
)

// patience is how long Eventually waits unless it is told otherwise: the machine may be busy, and what is well takes no longer.
const patience = 2 * time.Minute

// Server starts an API server that ends with the suite. It is called in the suite's BeforeSuite; what is to end before the server
// is cleaned up by a DeferCleanup after the call.
func Server(options ...apiserver.Option) *apiserver.Server {
	ginkgo.GinkgoHelper()
	gomega.SetDefaultEventuallyTimeout(patience)
	gomega.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	server, err := apiserver.Start(options...)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func() { gomega.Expect(server.Stop()).To(gomega.Succeed()) })
	return server
}

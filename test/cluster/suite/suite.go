// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite runs the Ginkgo suites of controllers and webhooks, and gives them their API server.
package suite

import (
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/client-go/tools/events"

	"github.com/nodegate/nodegate/test/cluster"
)

// Run runs a Ginkgo suite with all its specs in random order. A suite that hangs ends before go test ends the process:
// its report then names the spec that hangs, and its servers are stopped.
func Run(t *testing.T, description string) {
	t.Helper()
	gomega.RegisterFailHandler(ginkgo.Fail)
	config, reporter := ginkgo.GinkgoConfiguration()
	config.RandomizeAllSpecs = true
	if deadline, ok := t.Deadline(); ok {
		config.Timeout = time.Until(deadline) * 9 / 10
	}
	ginkgo.RunSpecs(t, description, config, reporter)
}

// Server starts an API server with the CRD that ends with the suite. Call it in the suite's BeforeSuite; what must end
// before the server is cleaned up by a DeferCleanup after the call.
func Server() *cluster.Cluster {
	ginkgo.GinkgoHelper()
	gomega.SetDefaultEventuallyTimeout(cluster.Limit)
	gomega.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	return cluster.ForTest(ginkgo.GinkgoTB(), cluster.Options{CRD: true})
}

// Events returns the events that a recorder has, and empties it.
func Events(recorder *events.FakeRecorder) []string {
	var out []string
	for len(recorder.Events) > 0 {
		out = append(out, <-recorder.Events)
	}
	return out
}

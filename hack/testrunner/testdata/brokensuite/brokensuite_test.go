// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package brokensuite

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
)

func TestSuite(t *testing.T) { ginkgo.RunSpecs(t, "The broken suite") }

var _ = ginkgo.BeforeSuite(func() { ginkgo.Fail("no server") })

var _ = ginkgo.Describe("A node", func() {
	ginkgo.It("never runs", func() {})
})

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
)

func TestSuite(t *testing.T) { ginkgo.RunSpecs(t, "The suite") }

func TestBeside(*testing.T) {}

var _ = ginkgo.Describe("A node", func() {
	ginkgo.It("passes", func() {})
	ginkgo.It("passes", func() {})
	ginkgo.It("fails", func() { ginkgo.Fail("this is why the spec fails") })
	ginkgo.It("skips", func() { ginkgo.Skip("no reason") })
	ginkgo.PIt("is pending", func() {})
})

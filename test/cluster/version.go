// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// Feature is a feature of Kubernetes that some versions lack on which the tests run.
type Feature struct{ name, since string }

// The features, and the first version of Kubernetes that has each without a feature gate.
var (
	MutatingAdmissionPolicies = Feature{"MutatingAdmissionPolicy of admissionregistration.k8s.io/v1", "1.36"}
	ResourceSlices            = Feature{"ResourceSlice of resource.k8s.io/v1", "1.34"}
	SimulatedAnswers          = Feature{"the answers that the simulation imitates", "1.36"}
	StatusRatcheting          = Feature{"status updates of objects whose unchanged spec a newer CRD refuses", "1.33"}
)

// Has reports whether the API server's version has a feature.
func (c *Cluster) Has(t testing.TB, f Feature) bool {
	t.Helper()
	served, err := c.Clientset.Discovery().ServerVersion()
	Must(t, err)
	return version.MustParseGeneric(served.GitVersion).AtLeast(version.MustParseGeneric(f.since))
}

// Needs skips a test if the API server's version lacks a feature.
func (c *Cluster) Needs(t testing.TB, f Feature) {
	t.Helper()
	if !c.Has(t, f) {
		t.Skipf("%s: Kubernetes %s and newer", f.name, f.since)
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestAnUpgradeReplacesThePolicy: the policy whose parameters are the rules is replaced by the one that reads the
// object, and comes back in a rollback. Meanwhile one or the other acts: an API server waits for the parameters of a
// policy for a second. The test does not count on that second.
func TestAnUpgradeReplacesThePolicy(t *testing.T) {
	s := cluster.ForTest(t, cluster.Options{CRD: true})
	s.Needs(t, cluster.MutatingAdmissionPolicies)
	raw, err := os.ReadFile("testdata/policy-of-rules.yml")
	cluster.Must(t, err)
	before, err := cluster.ParseObjects(raw)
	cluster.Must(t, err)
	after, err := cluster.ReadConfig(cluster.NodeAdmissionPolicy)
	cluster.Must(t, err)
	rule := network("upgraded").Obj()
	cluster.Must(t, s.Client.Create(t.Context(), rule))
	for _, o := range before {
		cluster.Must(t, s.Client.Create(t.Context(), o.DeepCopy()))
	}
	acts := func(want string) {
		t.Helper()
		missed := 0
		for began, got := time.Now(), ""; got != want; {
			if time.Since(began) > cluster.Limit {
				t.Fatalf("the policy %s does not act", want)
			}
			if got = actingOn(t, s); got == "" {
				missed++
			}
		}
		t.Logf("until the policy %s acts, %d nodes get no taint", want, missed)
	}
	acts("of rules")
	object, _ := ruleset.NewSet(ruleset.Compile(rule, nil, time.Now())).ForAdmission(nil)
	cluster.Must(t, s.Client.Create(t.Context(), object)) // as before an upgrade
	replace(t, s, after)
	acts("of the object")
	replace(t, s, before)
	acts("of rules")
}

// actingOn returns which policy taints a new node: only the one that reads the object removes records of rules that do
// not exist.
func actingOn(t *testing.T, s *cluster.Cluster) string {
	t.Helper()
	forged := "nodegate.io/rule-none"
	n := build.MakeNode("n").Label(poolKey, "upgraded").Annotation(forged, "{}").Obj()
	cluster.Must(t, s.Client.Create(t.Context(), n, client.DryRunAll))
	taints, _ := stored(n)
	_, kept := n.Annotations[forged]
	switch {
	case len(taints) == 0:
		return ""
	case kept:
		return "of rules"
	}
	return "of the object"
}

func replace(t *testing.T, s *cluster.Cluster, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		var stored client.Object = &admissionregistrationv1.MutatingAdmissionPolicy{}
		if o.GetKind() != "MutatingAdmissionPolicy" {
			stored = &admissionregistrationv1.MutatingAdmissionPolicyBinding{}
		}
		cluster.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(o), stored))
		o = o.DeepCopy()
		o.SetResourceVersion(stored.GetResourceVersion())
		cluster.Must(t, s.Client.Update(t.Context(), o))
	}
}

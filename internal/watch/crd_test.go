// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/ruleset"
)

func TestCompareCRD(t *testing.T) {
	spec := func(d *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.JSONSchemaProps {
		return d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	}
	for name, tc := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		lacks  []string
	}{
		"is content with its own": {change: func(*apiextensionsv1.CustomResourceDefinition) {}},
		"is content with one that has more": {change: func(d *apiextensionsv1.CustomResourceDefinition) {
			spec(d).Properties["newer"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}},
		"names a field that would be pruned": {
			change: func(d *apiextensionsv1.CustomResourceDefinition) { delete(spec(d).Properties, "maxUnavailable") },
			lacks:  []string{"spec.maxUnavailable"},
		},
		"names the add-on that restores it, and the setting": {
			change: func(d *apiextensionsv1.CustomResourceDefinition) {
				delete(spec(d).Properties, "maxUnavailable")
				d.Labels = map[string]string{"addonmanager.kubernetes.io/mode": "Reconcile"}
			},
			lacks: []string{"spec.maxUnavailable", "an add-on manager restores it", "mode=Reconcile",
				"--api-group=rules.nodegate.io"},
		},
		"looks into lists": {
			change: func(d *apiextensionsv1.CustomResourceDefinition) {
				delete(spec(d).Properties["conditions"].Items.Schema.Properties, "maxAgeSeconds")
			},
			lacks: []string{"spec.conditions[].maxAgeSeconds"},
		},
		"names a few of many": {
			change: func(d *apiextensionsv1.CustomResourceDefinition) {
				for _, f := range []string{"timeout", "stabilization", "suspend", "rearmOn", "existingNodes", "nodeAdmission",
					"health"} {
					delete(spec(d).Properties, f)
				}
			},
			lacks: []string{"spec.nodeAdmission", "and 2 more"},
		},
		"refuses one that does not serve this version": {
			change: func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Served = false },
			lacks:  []string{"it lacks"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours, err := crd.Load()
			if err != nil {
				t.Fatal(err)
			}
			served := ours.DeepCopy()
			tc.change(served)
			got := CompareCRD(ours, served)
			if len(tc.lacks) == 0 {
				if got != nil {
					t.Errorf("unexpected: %s", got)
				}
				return
			}
			if got == nil || got.Reason != ruleset.ReasonForeignCRD {
				t.Fatalf("got %v", got)
			}
			for _, s := range tc.lacks {
				if !strings.Contains(got.Message, s) {
					t.Errorf("%q does not name %q", got.Message, s)
				}
			}
		})
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodegate/nodegate/test/validation"
)

// TestCheck is the plugin's side of the table that the API server is tested with: it refuses the same fields, in the
// same words.
func TestCheck(t *testing.T) {
	validation.Run(t, func(t *testing.T, c validation.Case) {
		rule := &unstructured.Unstructured{}
		whole := fmt.Sprintf(`{"apiVersion": "readiness.node.x-k8s.io/v1alpha1", "kind": "NodeReadinessRule", `+
			`"metadata": {"name": "case"}, "spec": %s}`, c.Spec)
		if err := rule.UnmarshalJSON([]byte(whole)); err != nil {
			t.Fatal(err)
		}
		faults, err := Check(t.Context(), rule)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range faults {
			if f.Field == "<nil>" { // the schema's own words, beside those for a field
				continue
			}
			validation.ReadAloud(t, f.Message)
			got = append(got, f.Field)
			for _, want := range c.Refused {
				if field, words, _ := strings.Cut(want, ": "); field == f.Field && strings.Contains(f.Message, words) {
					got[len(got)-1] = want
				}
			}
		}
		slices.Sort(got)
		slices.Sort(c.Refused)
		if diff := cmp.Diff(c.Refused, got); diff != "" {
			t.Errorf("refused in other words (-want +got):\n%s", diff)
		}
	})
}

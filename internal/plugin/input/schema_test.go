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

// TestEmptyFields: the API server stores a rule without the fields that a template left empty.
func TestEmptyFields(t *testing.T) {
	const required = `"nodeSelector": {"matchLabels": {"a": "b"}}, "enforcementMode": "continuous",
		"conditions": [{"type": "a", "requiredStatus": "True"}], `
	rule := func(optional string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(`{"apiVersion": "readiness.node.x-k8s.io/v1alpha1", "kind": "NodeReadinessRule",
			"metadata": {"name": "a"}, "spec": {` + required + optional + "}}")); err != nil {
			t.Fatal(err)
		}
		return u
	}
	for spec, want := range map[string][]Fault{
		`"timeout": null, "dryRun": null, "taint": {"key": "a", "value": null, "effect": "NoSchedule"}`: nil,
		`"taint": {"key": "a", "effect": null}`: {
			{"spec.taint.effect", "Required value"}},
	} {
		before := rule(spec)
		got, err := Check(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", spec, diff)
		}
		if diff := cmp.Diff(rule(spec).Object, before.Object); diff != "" {
			t.Errorf("%s: the rule has been changed: %s", spec, diff)
		}
	}
}

// TestCured: who follows the advice must not select nodes by another value than the one that was meant.
func TestCured(t *testing.T) {
	for field, want := range map[string]string{
		"spec.conditions[0].requiredStatus":                    `put it in quotes, as "True"`,
		"spec.conditions[0].defaultStatus":                     `put it in quotes, as "True"`,
		"spec.nodeSelector.matchLabels.nvidia.com/gpu.present": "put it in quotes",
		"spec.timeout.replace.annotation.value":                "put it in quotes",
	} {
		got := Cured([]Fault{{field, field + ` in body must be of type string: "boolean"`}, {field, "is not allowed"}})
		if len(got) != 1 || !strings.HasSuffix(got[0].Message, want) {
			t.Errorf("%s: %v, want %q", field, got, want)
		}
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/validation"
)

// TestValidate is the operator's side of the table that the API server is tested with. What the API server accepts, the
// operator must not freeze.
func TestValidate(t *testing.T) {
	validation.Run(t, func(t *testing.T, c validation.Case) {
		spec := v1alpha1.NodeReadinessRuleSpec{}
		if err := json.Unmarshal(c.Spec, &spec); err != nil {
			if len(c.Refused) == 0 {
				t.Errorf("the API server accepts what the operator cannot read: %v", err)
			}
			return
		}
		var got []string
		for _, p := range Compile(&v1alpha1.NodeReadinessRule{Spec: spec}, nil, start).Problems {
			got = append(got, p.Reason+" "+p.Field)
			if p.Message == "" || !strings.HasPrefix(p.String(), p.Field+": ") {
				t.Errorf("%q does not say what is wrong", p.String())
			}
			validation.ReadAloud(t, p.String())
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.Frozen, got); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		if len(c.Refused) == 0 && len(got) > 0 {
			t.Error("the API server accepts this rule, and the operator freezes it")
		}
	})
}

func TestProblemWithoutAField(t *testing.T) {
	if got := (Problem{Message: "not ours"}).String(); got != "not ours" {
		t.Errorf("it says %q", got)
	}
}

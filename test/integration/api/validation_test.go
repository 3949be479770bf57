// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/validation"
)

// group is the group of the API as it is installed.
var group = v1alpha1.Served().Name

// TestValidation is the API server's side of the table that ruleset.Compile is tested with. What it accepts reads back
// as it was written.
func TestValidation(t *testing.T) {
	validation.Run(t, func(t *testing.T, c validation.Case) {
		sent := rule(t, group, "case", string(c.Spec))
		stored := sent.DeepCopy()
		err := kube.Create(t.Context(), stored, client.DryRunAll)
		if err == nil && len(c.Refused) > 0 {
			t.Fatalf("accepted, but should be refused: %q", c.Refused)
		}
		if err == nil {
			if diff := cmp.Diff(sent.Object["spec"], stored.Object["spec"]); diff != "" {
				t.Errorf("reads back otherwise than it was written (-written +read):\n%s", diff)
			}
			return
		}
		validation.ReadAloud(t, err.Error())
		slices.Sort(c.Refused)
		if diff := cmp.Diff(c.Refused, causes(t, err, c.Refused)); diff != "" {
			t.Errorf("refused in other words (-want +got):\n%s", diff)
		}
	})
}

func TestUnknownField(t *testing.T) {
	err := kube.Create(t.Context(), rule(t, group, "case", changed(t, plainSpec, "conditons: []")), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), `unknown field "spec.conditons"`) {
		t.Errorf("a misspelt field, sent with strict validation as kubectl does: %v", err)
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"testing"

	"github.com/nodegate/nodegate/test/build"
)

// TestOneSearchForAllRulesOfAName: a rule may be deleted and created again between two reconciliations.
func TestOneSearchForAllRulesOfAName(t *testing.T) {
	h := &Handover{}
	first, second := build.MakeRule("r").UID("u1").Obj(), build.MakeRule("r").UID("u2").Obj()
	h.search(first).problem = "it failed"
	if got := h.Problem(second); got != "" || h.Problem(first) != "" || len(h.searches) != 1 {
		t.Errorf("the problem of the former rule is that of the next one: %q; %d searches", got, len(h.searches))
	}
	h.Forget("r")
	if len(h.searches) > 0 {
		t.Error("the search of a deleted rule is remembered")
	}
}

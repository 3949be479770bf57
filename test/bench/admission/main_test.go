// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"strings"
	"testing"
)

func TestTargetsCompareTheRightSetups(t *testing.T) {
	all := results{}
	put := func(s setup, kind string, cpu ...float64) {
		if all[s.String()] == nil {
			all[s.String()] = map[string]*series{}
		}
		all[s.String()][kind] = &series{cpu: cpu}
	}
	put(setup{}, "patch of a node", 2, 2, 2, 2, 2, 2)
	put(setup{policy, 50}, "patch of a node", 2.2, 2.2, 2.2, 2.2, 2.2, 2.2)
	put(setup{policy, 1}, "creation of a node", 4, 4, 4, 4, 4, 4)
	put(setup{policy, 50}, "creation of a node", 8, 8, 8, 8, 8, 20) // only the median is below
	put(setup{}, "heartbeat", 1, 1, 1, 1, 1, 1)
	put(setup{webhook, 50}, "heartbeat", 2, 2, 2, 2, 2, 2)
	got := map[string]string{}
	for _, target := range targets(all) {
		title, _, _ := strings.Cut(target.Title, ",")
		switch {
		case target.Reached:
			got[title] = "reached"
		case target.Undecided:
			got[title] = "undecided"
		default:
			got[title] = "missed"
		}
	}
	want := map[string]string{"patch with 50 rules over none": "reached", "creation with 50 rules over 1": "undecided",
		"heartbeat with 50 rules over nothing": "missed"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

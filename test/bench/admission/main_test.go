// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestTargetsCompareTheRightSetups(t *testing.T) {
	all := results{}
	put := func(s setup, kind string, cpu ...float64) { all[key{s, kind}] = &series{cpu: cpu} }
	put(setup{engine: nothing}, "patch of a node", 2, 2, 2, 2, 2, 2)
	put(setup{policy, 50}, "patch of a node", 2.2, 2.2, 2.2, 2.2, 2.2, 2.2)
	put(setup{policy, 1}, "creation of a node", 4, 4, 4, 4, 4, 4)
	put(setup{policy, 50}, "creation of a node", 8, 8, 8, 8, 8, 20) // only the median is below
	put(setup{engine: nothing}, "heartbeat", 1, 1, 1, 1, 1, 1)
	put(setup{webhook, 50}, "heartbeat", 2, 2, 2, 2, 2, 2)
	got := map[string]string{}
	for _, target := range targets(all) {
		title, _, _ := strings.Cut(target.Title, ",")
		got[title] = fmt.Sprintf("reached: %t, undecided: %t", target.Reached, target.Undecided)
	}
	want := map[string]string{
		"patch with 50 rules over none":        "reached: true, undecided: false",
		"creation with 50 rules over 1":        "reached: false, undecided: true",
		"heartbeat with 50 rules over nothing": "reached: false, undecided: false",
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestATurnPaysForItsPartOfTheNextCollection(t *testing.T) {
	profile := func(allocated, size, limit, collections string) string {
		return "heap profile: 0: 0 [0: 0] @ heap/0\n\n# runtime.MemStats\n# Alloc = 7\n# TotalAlloc = " + allocated +
			"\n# HeapAlloc = " + size + "\n# Stack = 8 / 9\n# NextGC = " + limit + "\n# PauseNs = [1 2]\n# NumGC = " +
			collections + "\n# DebugGC = false\n"
	}
	before, err := parse(profile("1000", "100", "200", "3"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		after string
		want  float64
	}{
		"a quarter":                              {profile("1025", "125", "200", "3"), 0.25},
		"half of the third, after two in a turn": {profile("1250", "150", "200", "5"), 0.5},
	} {
		after, err := parse(test.after)
		if got := after.collectionsSince(before); err != nil || got != test.want {
			t.Errorf("%s: %v, want %v (%v)", name, got, test.want, err)
		}
	}
	if _, err := parse("a profile without the state of the heap\n"); err == nil {
		t.Error("no error about a profile without the state of the heap")
	}
}

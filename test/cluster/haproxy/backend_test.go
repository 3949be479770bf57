// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package haproxy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const statistics = `# pxname,svname,status,last_chk,
front,FRONTEND,OPEN,,
nodes,one,UP,"OK, and a comma",
nodes,BACKEND,UP,,
others,one,DOWN,,

`

func TestStatisticsAreOfOneBackend(t *testing.T) {
	got, err := parseStatistics(statistics, "nodes")
	if err != nil {
		t.Fatal(err)
	}
	want := Statistics{
		"one": {"pxname": "nodes", "svname": "one", "status": "UP", "last_chk": "OK, and a comma", "": ""},
		Whole: {"pxname": "nodes", "svname": Whole, "status": "UP", "last_chk": "", "": ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for what, text := range map[string]string{"nodes": "", "no-such": statistics} {
		if got, err := parseStatistics(text, what); err == nil {
			t.Errorf("%s in %q: %v", what, text, got)
		}
	}
}

func TestIs(t *testing.T) {
	s := Statistics{"one": {"status": "UP", "chkfail": "0"}}
	if err := s.Is("one", Fields{"status": "UP"}); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]Fields{"another value": {"status": "DOWN"}, "no such field": {"stat": ""}} {
		if err := s.Is("one", want); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := s.Is("two", Fields{"status": "UP"}); err == nil {
		t.Error("no such server: no error")
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		modules, compiled, total int
		want                     string
	}{
		{modules: 40, want: "downloaded 40 modules"}, // before the packages are counted
		{compiled: 12, total: 1900, want: "compiled 12 of 1900 packages"},
		{compiled: 12, total: 10, want: "compiled 12 of 12 packages"}, // another process has emptied the cache
		{modules: 3, compiled: 7, want: "downloaded 3 modules, compiled 7 packages"},
		{want: "compiled 0 packages"},
	} {
		if got := progress(c.modules, c.compiled, c.total); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

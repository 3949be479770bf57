// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadAudit(t *testing.T) {
	type event struct{ Verb string }
	long := `{"verb":"list","annotations":{"a":"` + strings.Repeat("x", 1<<20) + `"}}` + "\n"
	for name, c := range map[string]struct {
		log  string
		want []event
		bad  bool
	}{
		"nothing yet":                      {log: ""},
		"two, one of them long":            {log: `{"verb":"get"}` + "\n" + long, want: []event{{"get"}, {"list"}}},
		"one that is being written":        {log: `{"verb":"get"}` + "\n" + `{"verb":"li`, want: []event{{"get"}}},
		"one that lacks its end of line":   {log: `{"verb":"get"}`},
		"one that is complete and no JSON": {log: "{\n", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.log")
			Must(t, os.WriteFile(path, []byte(c.log), 0o600))
			got, err := ReadAudit[event](path)
			if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != c.bad {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := ReadAudit[event](filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a log that is not there is no error")
	}
}

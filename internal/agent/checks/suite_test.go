// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// TestWithoutTheNodesFiles: checks of files that the agent does not see say so, instead of looking at its own; the
// others are as ever.
func TestWithoutTheNodesFiles(t *testing.T) {
	env := Environment{NoHostRoot: true}
	want := Misconfigured("the agent does not see the node's files: --host-root is none")
	ofFiles := []string{NameFilesystem, NameContainerRuntime, NameDiskPressure}
	for _, c := range Builtin(env, nil) {
		if slices.Contains(ofFiles, c.Name) {
			if diff := cmp.Diff(want, NewRunner(c).Do(t.Context()).Result); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.Name, diff)
			}
		} else if c.Instant != nil {
			if got, _ := c.Instant(); got == want {
				t.Errorf("%s needs no files", c.Name)
			}
		}
	}
	for _, name := range ofFiles {
		c, err := FromSpec(&v1alpha1.HealthCheck{Name: name, CacheSeconds: 10}, env, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, NewRunner(c).Do(t.Context()).Result); diff != "" {
			t.Errorf("%s of a rule: -want +got:\n%s", name, diff)
		}
	}
}

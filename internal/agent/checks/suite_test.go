// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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

// TestANewSuiteContinuesWithTheRunners: a rule was edited, and the others' checks are as before.
func TestANewSuiteContinuesWithTheRunners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		slow := Check{Name: "slow", Identity: "1", Timeout: time.Minute, Period: time.Hour,
			Run: func(context.Context) Result {
				runs++
				time.Sleep(10 * time.Second)
				return Pass()
			}}
		ready := Always(NameNodeReady, Pass())
		ctx, cancel := context.WithCancel(t.Context())
		before := NewSuite(nil, []Check{slow, slow}, ready)
		go before.Run(ctx)
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		after := NewSuite(before, []Check{slow}, ready)
		if o, ok := after.Group("slow").Instant(); !ok || !o.Passed || runs != 1 {
			t.Errorf("after %d runs: %+v", runs, o)
		}
		slow.Identity = "2"
		if _, ok := NewSuite(after, []Check{slow}, ready).Group("slow").Instant(); ok {
			t.Error("another check has the result of this one")
		}
	})
}

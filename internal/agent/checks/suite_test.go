// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWithoutTheNodesFiles: checks of files that the agent does not see say so, instead of looking at its own; the
// others are as ever.
func TestWithoutTheNodesFiles(t *testing.T) {
	want := Misconfigured("the agent does not see the node's files: --host-root is none")
	for _, name := range builtin {
		c, err := FromSpec(&v1alpha1.HealthCheck{Name: name, PeriodSeconds: 10}, Environment{NoHostRoot: true}, nil)
		must(t, err)
		ofFiles := slices.Contains([]string{NameFilesystem, NameContainerRuntime, NameDiskPressure}, name)
		if got, ok := NewRunner(c).Instant(); ok && (got.Result == want) != ofFiles || !ok && ofFiles {
			t.Errorf("%s: got %+v", name, got)
		}
		if !ofFiles {
			continue
		}
		for _, root := range []string{t.TempDir(), "/does/not/exist"} {
			want := Misconfigured("the agent does not see the node's files: nothing is mounted at --host-root " + root)
			c, err := FromSpec(&v1alpha1.HealthCheck{Name: name}, Environment{HostRoot: root}, nil)
			must(t, err)
			if got := c.Run(t.Context()); got != want {
				t.Errorf("%s: got %+v", name, got)
			}
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

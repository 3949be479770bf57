// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/internal/controller"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// follow runs a source whose rules change a number of times, 50 ms apart. It returns the source's queue. Each change
// concerns all 150 nodes; a hundred are enqueued at once after the first one, and follow takes them.
func follow(t *testing.T, changes int) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	calls := atomic.Int32{}
	var nodes []string
	for i := range 150 {
		nodes = append(nodes, strconv.Itoa(i))
	}
	s := &controller.RulesSource{
		Queue: &controller.Queue{}, After: func(d time.Duration, f func()) { time.AfterFunc(d, f) },
		SetRules: func(context.Context, *ruleset.Set) ([]string, error) {
			calls.Add(1)
			return nodes, nil
		},
	}
	set := ruleset.NewSet()
	s.Current = func() *ruleset.Set { return set }
	if err := s.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if s.InForce() != nil {
		t.Error("rules are in force before they were put in force")
	}
	for i := range changes {
		s.AvailabilityChanged()
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if n := int(calls.Load()); n != i+1 {
			t.Fatalf("the rules were put in force %d times after %d changes", n, i+1)
		}
		if i > 0 {
			continue
		}
		if n := queue.Len(); n != 100 {
			t.Fatalf("%d nodes are enqueued at once after the first change, want 100", n)
		}
		for range 100 {
			item, _ := queue.Get()
			queue.Done(item)
		}
	}
	if s.InForce() != set {
		t.Error("no rules are in force")
	}
	return queue
}

func TestAllNodesAreEnqueuedWhenNoRuleChangesAnyMore(t *testing.T) {
	for changes, want := range map[int]int{1: 50, 5: 150} {
		synctest.Test(t, func(t *testing.T) {
			queue := follow(t, changes)
			if n := queue.Len(); n != 0 {
				t.Errorf("%d changes: %d nodes are enqueued while rules change", changes, n)
			}
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
			if n := queue.Len(); n != want {
				t.Errorf("%d changes: %d nodes are enqueued, want %d", changes, n, want)
			}
		})
	}
}

func TestNodesAreEnqueuedAlthoughRulesStillChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if n := follow(t, 41).Len(); n != 150 {
			t.Errorf("%d nodes are enqueued, want 150", n)
		}
	})
}

// TestRulesThatCannotBePutInForce: they are tried again, although no rule changes.
func TestRulesThatCannotBePutInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		calls := atomic.Int32{}
		s := &controller.RulesSource{
			Queue: &controller.Queue{}, After: func(d time.Duration, f func()) { time.AfterFunc(d, f) },
			Current: func() *ruleset.Set { return ruleset.NewSet() },
			SetRules: func(context.Context, *ruleset.Set) ([]string, error) {
				if calls.Add(1) < 3 {
					return nil, errors.New("the cache is not there")
				}
				return []string{"a"}, nil
			},
		}
		if err := s.Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		s.AvailabilityChanged()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := calls.Load(); n != 3 || s.InForce() == nil || queue.Len() != 1 {
			t.Errorf("%d tries, in force: %t, %d nodes enqueued; want 3 tries and one node", n, s.InForce() != nil, queue.Len())
		}
	})
}

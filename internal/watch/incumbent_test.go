// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/ruleset"
)

// leases is an API server that has these.
type leases struct {
	client.Reader

	items []coordinationv1.Lease
	err   error
}

func (l *leases) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if out, ok := list.(*coordinationv1.LeaseList); ok {
		out.Items = l.items
	}
	return l.err
}

// TestAnotherControllerIsOneThatRenewsItsLease looks at a lease in steps. A time of renewal is by the other's clock.
func TestAnotherControllerIsOneThatRenewsItsLease(t *testing.T) {
	held := func(renewed time.Duration) []coordinationv1.Lease {
		return []coordinationv1.Lease{{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("incumbent-0"),
			RenewTime: new(metav1.NewMicroTime(now.Add(renewed)))}}}
	}
	ofNode := held(0)
	ofNode[0].Namespace = "kube-node-lease"
	// written is a lease that the API server has written at a time. The holder's clock differs.
	written := func(at, differs time.Duration) []coordinationv1.Lease {
		l := held(at + differs)
		l[0].ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(metav1.NewTime(now.Add(at)))}}
		return l
	}
	released := held(0)
	released[0].Spec.HolderIdentity = new("")
	type step struct {
		at     time.Duration
		leases []coordinationv1.Lease
		err    error
		frozen bool
	}
	for name, steps := range map[string][]step{
		"none": {{}},
		"renewed, and then no more": {{leases: held(-20 * time.Second), frozen: true},
			{at: 10 * time.Second, leases: held(-10 * time.Second), frozen: true},
			{at: 39 * time.Second, leases: held(-10 * time.Second), frozen: true},
			{at: 40 * time.Second, leases: held(-10 * time.Second)},
			{at: 50 * time.Second, leases: held(50 * time.Second), frozen: true}},
		"of a node":      {{leases: ofNode}, {at: time.Second, leases: ofNode}},
		"released":       {{leases: held(0), frozen: true}, {leases: released}},
		"deleted":        {{leases: held(0), frozen: true}, {}},
		"cannot be read": {{leases: held(0), frozen: true}, {at: time.Hour, err: errors.New("refused"), frozen: true}},
		"left behind":    {{leases: held(-leftBehind)}, {at: 10 * time.Second, leases: held(-leftBehind)}},
		"left behind, of a clock that is far ahead": {{leases: written(-leftBehind, time.Hour)},
			{at: 10 * time.Second, leases: written(-leftBehind, time.Hour)}},
		"of a clock that is far behind": {{leases: written(0, -time.Hour), frozen: true},
			{at: 20 * time.Second, leases: written(20*time.Second, -time.Hour), frozen: true},
			{at: 49 * time.Second, leases: written(20*time.Second, -time.Hour), frozen: true},
			{at: 50 * time.Second, leases: written(20*time.Second, -time.Hour)}},
		"not renewed since the API server's clock was set back": {{leases: held(0), frozen: true},
			{at: -time.Hour, leases: held(0), frozen: true}, {at: 30*time.Second - time.Hour, leases: held(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			rules, _ := newRules()
			rules.put(network().Obj())
			live, clock, told, wantTold, before := &leases{}, clocktesting.NewFakePassiveClock(now), 0, 0, false
			i := &Incumbents{Live: live, Rules: rules, Clock: clock,
				Tell: func(context.Context, *ruleset.Problem) { told++ }}
			for _, s := range steps {
				live.items, live.err = s.leases, s.err
				clock.SetTime(now.Add(s.at))
				if err := i.Look(t.Context()); !errors.Is(err, s.err) {
					t.Errorf("after %s: %v", s.at, err)
				}
				if s.frozen && !before {
					wantTold++
				}
				before = s.frozen
				mode := rules.Set().Rule("u1").Mode
				if (mode == ruleset.Frozen) != s.frozen || (rules.OtherController() != nil) != s.frozen || told != wantTold {
					t.Errorf("after %s: the rule is %s, and it was told %d times", s.at, mode, told)
				}
			}
		})
	}
}

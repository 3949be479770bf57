// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestBesideARunningIncumbentNothingChanges: while another controller renews its lease, the operator writes no rule and
// no node, and says so. When the lease is not renewed any more, the operator acts.
func TestBesideARunningIncumbentNothingChanges(t *testing.T) {
	e := newPool(t, 2)
	e.stopOperator()
	rule := e.create(e.Rule())
	stopIncumbent := e.runIncumbent()

	ended := make(chan error, 1)
	go func() { ended <- e.Operator.Start(t.Context()) }()
	e.Eventually("readyz says why", func() error {
		if err := ready(e.Operator); err == nil || !strings.Contains(err.Error(), "[-]no-other-controller") ||
			!strings.Contains(err.Error(), "[+]caches-synced") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	e.Eventually("an event says what to do", func() error {
		list := &eventsv1.EventList{}
		if err := e.Client.List(t.Context(), list); err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(v eventsv1.Event) bool {
			return v.Reason == "OtherController" && v.Regarding.Kind == "CustomResourceDefinition" &&
				strings.Contains(v.Note, "incumbent-0 renews the lease "+e.Name) && strings.Contains(v.Note, "scale its Deployment")
		}) {
			return fmt.Errorf("none of %d", len(list.Items))
		}
		return nil
	})
	p := &plugin{env: e}
	var err error
	p.binary, err = p.Binary(t.Context(), "kubectl-nodegate")
	p.Must(err)
	p.says("incumbent-0 renews the lease", "status")
	e.Consistently("no node and no rule is written", 3*time.Second, func() error {
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
			return err
		}
		if len(rule.Finalizers) > 0 || rule.Status.ObservedGeneration != 0 {
			return errors.New("the rule was written")
		}
		return e.held(false)()
	})

	stopIncumbent()
	e.Must(<-ended)
	e.Eventually("the nodes are held", e.held(true))
	e.Eventually("the rule has the finalizer", func() error {
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
			return err
		}
		if !slices.Contains(rule.Finalizers, v1alpha1.Finalizer) {
			return errors.New("it has not")
		}
		return nil
	})

	// The lease that is left behind stops nothing.
	e.Must(e.Operator.Stop())
	e.Must(e.Operator.Start(t.Context()))
}

// runIncumbent renews the lease of the Node Readiness Controller, as its leader does, until the function that it
// returns is called.
func (e *env) runIncumbent() (stop func()) {
	e.T.Helper()
	e.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Name}})
	// The clock of the incumbent's node is behind.
	now := func() *metav1.MicroTime { return new(metav1.NewMicroTime(time.Now().Add(-20 * time.Second))) }
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Name, Name: "ba65f13e.readiness.node.x-k8s.io"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("incumbent-0"), LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: now()},
	}
	e.Create(lease)
	ctx, cancel := context.WithCancel(e.T.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for cluster.Poll(ctx, 2*time.Second, func() error { return errors.New("wait") }) != nil && ctx.Err() == nil {
			lease.Spec.RenewTime = now()
			_ = e.Client.Update(ctx, lease)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/ruleset"
)

// TestBesideARunningIncumbentNothingChanges: while another controller renews its lease, the operator writes no rule and
// no node, and says so. When the lease is gone, the operator acts. internal/watch tests which leases count.
func TestBesideARunningIncumbentNothingChanges(t *testing.T) {
	e := newPool(t, 2)
	plugin, err := e.Binary(t.Context(), "kubectl-nodegate")
	e.Must(err)
	e.stopOperator()
	rule := e.Rule().Obj()
	e.Create(rule)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: ruleset.IncumbentLease},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("incumbent-0"), LeaseDurationSeconds: new(int32(15)),
			RenewTime: new(metav1.NowMicro())},
	}
	e.Create(lease)
	stopIncumbent := e.renewing(lease)
	ended := make(chan error, 1)
	go func() { ended <- e.Operator.Start(t.Context()) }()
	e.Eventually("readyz says why", func() error {
		if err := ready(e.Operator); err == nil || !strings.Contains(err.Error(), "[-]no-other-controller") ||
			!strings.Contains(err.Error(), "[+]caches-synced") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	e.Eventually("an event says what to do", e.frozen(t, "OtherController", "incumbent-0 renews the lease default",
		"scale its Deployment"))
	out, err := exec.CommandContext(t.Context(), plugin, "status", "--kubeconfig", e.Kubeconfig()).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "incumbent-0 renews the lease") {
		t.Errorf("kubectl nodegate status: %v\n%s", err, out)
	}
	e.LookedAt(e.Nodes)
	e.Must(e.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule))
	if len(rule.Finalizers) > 0 || rule.Status.ObservedGeneration != 0 {
		t.Errorf("the rule was written: %v, %+v", rule.Finalizers, rule.Status)
	}
	e.Must(e.held(false)())

	stopIncumbent()
	e.Remove(lease)
	e.Must(<-ended)
	e.Eventually("the nodes are held", e.held(true))
}

// frozen looks for an event of the CRD with a reason and these texts.
func (e *env) frozen(t *testing.T, reason string, texts ...string) func() error {
	return func() error {
		list := &eventsv1.EventList{}
		if err := e.Client.List(t.Context(), list); err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(v eventsv1.Event) bool {
			return v.Reason == reason && v.Regarding.Kind == "CustomResourceDefinition" &&
				!slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(v.Note, text) })
		}) {
			return fmt.Errorf("none of %d", len(list.Items))
		}
		return nil
	}
}

// renewing renews a lease, as its holder does, until the function that it returns is called: after 40 seconds without
// a renewal, the operator would act.
func (e *env) renewing(lease *coordinationv1.Lease) (stop func()) {
	ctx, cancel := context.WithCancel(e.T.Context())
	var renewals sync.WaitGroup
	renewals.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(time.Second) {
			lease.Spec.RenewTime = new(metav1.NowMicro())
			_ = e.Client.Update(ctx, lease)
		}
	})
	stop = func() {
		cancel()
		renewals.Wait()
	}
	e.T.Cleanup(stop)
	return stop
}

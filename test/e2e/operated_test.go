// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/cluster"
)

func TestAForeignCRDFreezesEverythingUntilItIsMended(t *testing.T) {
	e := newPool(t, 2)
	e.Create(e.Rule().MaxUnavailable("100%").Obj())
	e.Eventually("the nodes are held", e.held(true))
	ready := func() error { return ready(e.Operator) }
	e.Eventually("the operator is ready", ready)

	ours, err := crd.Load()
	e.Must(err)
	foreign := ours.DeepCopy()
	spec := foreign.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	delete(spec.Properties, "maxUnavailable")
	spec.XValidations = nil // one of them reads the field
	foreign.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	e.Must(e.InstallCRD(foreign))
	t.Cleanup(func() { e.Must(e.InstallCRD(ours)) })
	e.Eventually("readyz says why", func() error {
		if err := ready(); err == nil || !strings.Contains(err.Error(), "[-]served-crd-is-ours") {
			return fmt.Errorf("it says %w", err)
		}
		if log := strings.Join(e.Operator.Log(), "\n"); !strings.Contains(log, "maxUnavailable") {
			return errors.New("the log does not name the field that is missing")
		}
		return nil
	})
	e.Eventually("an event says why", e.frozen(t, "ForeignCRD", "it lacks spec.maxUnavailable"))
	e.ReportAll(true)
	e.LookedAt(e.Nodes)
	e.Must(e.held(true)()) // the frozen operator releases no node

	e.Must(e.InstallCRD(ours))
	e.Eventually("the operator is ready again", ready)
	for _, node := range e.Nodes {
		e.Eventually("and does what is due", e.Tainted(node, cluster.GPUTaint, false))
	}
}

// ready is what the operator answers to a readiness probe.
func ready(o *cluster.Operator) error {
	status, body, err := cluster.Get(context.Background(), o.ReadyURL)
	if err == nil && status != http.StatusOK {
		err = errors.New(body)
	}
	return err
}

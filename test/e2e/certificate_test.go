// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

// TestTheWebhooksCertificateIsLost: the Secret is deleted, and the operator may not write it. The operator starts,
// holds and releases nodes, and tells; when it may write again, it creates the Secret.
func TestTheWebhooksCertificateIsLost(t *testing.T) {
	e := newPool(t, 1)
	e.Create(e.Rule().Obj())
	e.Eventually("the node is held", e.held(true))
	e.stopOperator()

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "nodegate-webhook-cert"}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "nodegate-webhook-role"}}
	mayWrite := func(ctx context.Context, may bool) error {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(role), role); err != nil {
			return err
		}
		for i := range role.Rules {
			role.Rules[i].Verbs = []string{"get", "list", "watch"}
			if may {
				role.Rules[i].Verbs = append(role.Rules[i].Verbs, "create", "patch")
			}
		}
		return e.Client.Update(ctx, role)
	}
	e.Must(mayWrite(t.Context(), false))
	t.Cleanup(func() { _ = mayWrite(context.Background(), true) })
	e.Must(client.IgnoreNotFound(e.Client.Delete(t.Context(), secret)))

	ready := make(chan error, 1)
	go func() { ready <- e.Operator.Start(t.Context()) }()
	problem := func(want float64) func() error {
		return func() error {
			metrics, err := e.Operator.Metrics(t.Context())
			if err != nil {
				return err
			}
			if got, err := cluster.Metric(metrics, "node_readiness_webhook_certificate_problem"); err != nil || got != want {
				return fmt.Errorf("the metric is %v, not %v: %w", got, want, err)
			}
			return nil
		}
	}
	e.Eventually("a metric tells", problem(1))
	e.Report(e.Nodes[0], cluster.GPUReady, true)
	e.Eventually("the node is released", e.held(false))
	e.Report(e.Nodes[0], cluster.GPUReady, false)
	e.Eventually("the node is held again", e.held(true))
	if status, body, err := cluster.Get(t.Context(), e.Operator.ReadyURL); err != nil || status == 200 ||
		!strings.Contains(body, "[-]webhook-certificate failed") {
		t.Errorf("readyz: %d %s %v", status, body, err)
	}

	e.Must(mayWrite(t.Context(), true))
	e.Must(<-ready)
	e.Eventually("the metric says that it is over", problem(0))
	e.Must(e.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))

	// While the operator serves webhooks: it stays ready, since its certificate is good, and the Secret is back at once.
	e.Must(mayWrite(t.Context(), false))
	e.Must(e.Client.Delete(t.Context(), secret))
	e.Eventually("a metric tells", problem(1))
	if status, body, err := cluster.Get(t.Context(), e.Operator.ReadyURL); err != nil || status != 200 {
		t.Errorf("readyz: %d %s %v", status, body, err)
	}
	e.Must(mayWrite(t.Context(), true))
	e.Eventually("the metric says that it is over", problem(0))
}

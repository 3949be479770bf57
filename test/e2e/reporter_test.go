// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/nodegate/nodegate/test/demo/stage"
)

// calicoAddress is where the example's reporter asks.
const calicoAddress = "127.0.0.1:9099"

// reporter does on one node what the example's reporter does: kwok runs no containers.
type reporter struct {
	client        kubernetes.Interface
	node          string
	endpoint      string
	conditionType corev1.NodeConditionType
}

// reporterOf reads from the example's DaemonSet what its reporter asks and reports, and as whom.
func reporterOf(t *testing.T, s *stage.Stage, file string) reporter {
	t.Helper()
	objects, err := stage.ReadObjects(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() != "DaemonSet" {
			continue
		}
		ds := &appsv1.DaemonSet{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, ds, true); err != nil {
			t.Fatal(err)
		}
		pod := ds.Spec.Template.Spec
		user := "system:serviceaccount:" + ds.Namespace + ":" + pod.ServiceAccountName
		config, err := s.ConfigFor(user, "system:serviceaccounts", "system:serviceaccounts:"+ds.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		r := reporter{client: client}
		for _, env := range pod.Containers[0].Env {
			switch env.Name {
			case "CHECK_ENDPOINT":
				r.endpoint = env.Value
			case "CONDITION_TYPE":
				r.conditionType = corev1.NodeConditionType(env.Value)
			}
		}
		return r
	}
	t.Fatalf("no DaemonSet in %s", file)
	return reporter{}
}

// movedTo is the reporter, asking elsewhere if that is not where it would ask anyway.
func (r reporter) movedTo(t *testing.T, address string) reporter {
	t.Helper()
	if address == calicoAddress {
		return r
	}
	u, err := url.Parse(r.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = address
	r.endpoint = u.String()
	return r
}

func (r reporter) on(node string) reporter {
	r.node = node
	return r
}

// run polls and reports until ctx ends. Each time it tells what went wrong, or that nothing did.
func (r reporter) run(ctx context.Context, tell func(error)) {
	for ctx.Err() == nil {
		tell(r.report(ctx))
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (r reporter) report(ctx context.Context) error {
	status, reason := corev1.ConditionFalse, "EndpointConnectionError"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.endpoint, http.NoBody)
	if err != nil {
		return err
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		reason = "EndpointNotReady"
		if resp.StatusCode/100 == 2 {
			status, reason = corev1.ConditionTrue, "EndpointOK"
		}
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := r.client.CoreV1().Nodes().Get(ctx, r.node, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading the node: %w", err)
		}
		now := metav1.Now()
		c := corev1.NodeCondition{Type: r.conditionType, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
		i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == r.conditionType })
		switch {
		case i < 0:
			node.Status.Conditions = append(node.Status.Conditions, c)
		case node.Status.Conditions[i].Status == status && node.Status.Conditions[i].Reason == reason:
			return nil
		default:
			node.Status.Conditions[i] = c
		}
		_, err = r.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

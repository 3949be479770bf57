// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/url"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/demo/stage"
)

// calicoAddress is where the example's reporter asks.
const calicoAddress = "127.0.0.1:9099"

// reporter is the example's DaemonSet as it stands. kwok runs no containers: the test runs the image's binary on each node,
// with the environment and the rights that the DaemonSet gives it.
type reporter struct {
	container  corev1.Container
	kubeconfig string
	endpoint   string
}

// reporterOf reads it.
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
		kubeconfig, err := s.KubeconfigFor(user, "system:serviceaccounts", "system:serviceaccounts:"+ds.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		r := reporter{container: pod.Containers[0], kubeconfig: kubeconfig}
		r.endpoint = r.env("CHECK_ENDPOINT")
		return r
	}
	t.Fatalf("no DaemonSet in %s", file)
	return reporter{}
}

func (r reporter) env(name string) string {
	for _, e := range r.container.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
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

// start runs it on a node until the test ends.
func (r reporter) start(t *testing.T, s *stage.Stage, node string) *cluster.Component {
	t.Helper()
	if len(r.container.Command)+len(r.container.Args) > 0 {
		t.Fatalf("the DaemonSet gives its reporter arguments: %q %q", r.container.Command, r.container.Args)
	}
	env := []string{"KUBECONFIG=" + r.kubeconfig}
	for _, e := range r.container.Env {
		switch e.Name {
		case "NODE_NAME":
			e.Value = node
		case "CHECK_ENDPOINT":
			e.Value = r.endpoint
		case "CHECK_INTERVAL":
			e.Value = "200ms" // the test has less patience than pods
		}
		env = append(env, e.Name+"="+e.Value)
	}
	env = append(env, "METRICS_BIND_ADDRESS=0") // all nodes are this machine
	c, err := s.Run(t.Context(), cluster.Process{Name: "reporter-" + node, Path: agentBinary(t, s), Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

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
)

// calicoAddress is where the example's reporter asks.
const calicoAddress = "127.0.0.1:9099"

// reporter is the example's DaemonSet. kwok runs no containers: the test runs the image's binary on each node, with the
// environment and the permissions that the DaemonSet gives it.
type reporter struct {
	container  corev1.Container
	kubeconfig string
	endpoint   string
}

// reporterOf reads it.
func reporterOf(e *env, file string) reporter {
	e.T.Helper()
	objects, err := cluster.ReadObjects(file)
	e.Must(err)
	for _, o := range objects {
		if o.GetKind() != "DaemonSet" {
			continue
		}
		ds := &appsv1.DaemonSet{}
		e.Must(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, ds, true))
		pod := ds.Spec.Template.Spec
		user := "system:serviceaccount:" + ds.Namespace + ":" + pod.ServiceAccountName
		kubeconfig, err := e.KubeconfigFor(user, "system:serviceaccounts", "system:serviceaccounts:"+ds.Namespace)
		e.Must(err)
		r := reporter{container: pod.Containers[0], kubeconfig: kubeconfig}
		r.endpoint = r.env("CHECK_ENDPOINT")
		return r
	}
	e.T.Fatalf("no DaemonSet in %s", file)
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
	cluster.Must(t, err)
	u.Host = address
	r.endpoint = u.String()
	return r
}

// start runs it on a node until the test ends.
func (r reporter) start(e *env, node string) {
	e.T.Helper()
	if len(r.container.Command)+len(r.container.Args) > 0 {
		e.T.Fatalf("the DaemonSet gives its reporter arguments: %q %q", r.container.Command, r.container.Args)
	}
	variables := []string{"KUBECONFIG=" + r.kubeconfig, "METRICS_BIND_ADDRESS=0"} // all nodes are this machine
	for _, v := range r.container.Env {
		switch v.Name {
		case "NODE_NAME":
			v.Value = node
		case "CHECK_ENDPOINT":
			v.Value = r.endpoint
		case "CHECK_INTERVAL":
			v.Value = "200ms" // the test waits for it
		}
		variables = append(variables, v.Name+"="+v.Value)
	}
	e.startAgent("reporter-"+node, nil, variables...)
}

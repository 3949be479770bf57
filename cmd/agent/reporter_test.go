// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

const calico = "projectcalico.org/CalicoReady"

// endpoint answers with a status that can be set.
func endpoint(t *testing.T) (url string, status *atomic.Int64) {
	t.Helper()
	status = &atomic.Int64{}
	status.Store(http.StatusServiceUnavailable)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/readiness", status
}

// watching is what the agent's own installation grants, and patching is the role that the incumbent's reporter has.
var (
	watching = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"},
		Verbs: []string{"get", "list", "watch"}}
	patching = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/status"},
		Verbs: []string{"patch", "update"}}
)

func conditionOf(t *testing.T, node string, conditionType corev1.NodeConditionType) *corev1.NodeCondition {
	t.Helper()
	return cluster.ConditionOf(shared(t).Node(node), conditionType)
}

// becomes waits until the node's condition has this status and reason, and returns it.
func becomes(t *testing.T, node string, conditionType corev1.NodeConditionType, status,
	reason string) *corev1.NodeCondition {
	t.Helper()
	var c *corev1.NodeCondition
	cluster.Eventually(t, string(conditionType), func() error {
		if c = conditionOf(t, node, conditionType); c == nil {
			return errors.New("no such condition")
		}
		if string(c.Status) != status || c.Reason != reason {
			return fmt.Errorf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
		return nil
	})
	return c
}

func TestTheReporterWithTheRightsOfTheSecondSeed(t *testing.T) {
	const node = "reported"
	shared(t).Create(build.MakeNode(node).Obj())
	shared(t).SetReady(node, "True", "KubeletReady")
	url, status := endpoint(t)
	env := map[string]string{"NODE_NAME": node, "CHECK_ENDPOINT": url, "CONDITION_TYPE": calico, "CHECK_INTERVAL": "50ms"}
	kubeconfig := shared(t).Account("kube-system", "patching", patching)
	a := startAgent(t, env, "--kubeconfig", kubeconfig)
	becomes(t, node, calico, "False", "EndpointNotReady")
	status.Store(http.StatusOK)
	becomes(t, node, calico, "True", "EndpointOK")

	t.Run("what another has overwritten is put right", func(t *testing.T) {
		shared(t).PatchNode(node, `{"status":{"conditions":[{"type":"`+calico+`","status":"False","reason":"Forged"}]}}`,
			"status")
		becomes(t, node, calico, "True", "EndpointOK")
	})
	t.Run("it is not a health endpoint unless it is told a port", func(t *testing.T) {
		if _, serves := a.Addresses["health"]; serves {
			t.Error("it serves /health")
		}
	})
	t.Run("a node that is created again gets the condition", func(t *testing.T) {
		shared(t).Remove(build.MakeNode(node).Obj())
		shared(t).Create(build.MakeNode(node).Obj())
		becomes(t, node, calico, "True", "EndpointOK")
	})
}

// TestTheReporterWithConstrainedImpersonation has the permissions of the incumbent's example: its token is bound to a
// node, and as that node it may read the node and update its status, but neither watch nor patch.
func TestTheReporterWithConstrainedImpersonation(t *testing.T) {
	const node, namespace, account = "impersonated", "kube-system", "cni-reporter"
	e := shared(t)
	n := build.MakeNode(node).Obj()
	e.Create(n)
	e.SetReady(node, "True", "KubeletReady")
	e.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}})
	e.Account(namespace, account,
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"nodes"},
			Verbs: []string{"impersonate:associated-node"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"},
			Verbs: []string{"impersonate-on:associated-node:get"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/status"},
			Verbs: []string{"impersonate-on:associated-node:update"}})
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: n.UID},
	}}
	e.Must(e.Client.SubResource("token").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}, request))
	config := e.Config()
	kubeconfig := cluster.Kubeconfig(t, config.Host, config.CAData, request.Status.Token)

	url, status := endpoint(t)
	a := startAgent(t, map[string]string{"NODE_NAME": node, "CHECK_ENDPOINT": url, "CONDITION_TYPE": calico,
		"CHECK_INTERVAL": "50ms", "IMPERSONATE_NODE": "true"}, "--kubeconfig", kubeconfig)
	becomes(t, node, calico, "False", "EndpointNotReady")
	status.Store(http.StatusOK)
	becomes(t, node, calico, "True", "EndpointOK")
	if c := conditionOf(t, node, "Ready"); c == nil || c.Status != "True" || c.Reason != "KubeletReady" {
		t.Errorf("another's condition is %+v", c)
	}
	// Nothing changes any more, and nothing is written.
	writes := func(result string) float64 {
		return a.Metric(t, `node_readiness_reporter_condition_writes_total{result="`+result+`"}`)
	}
	before := writes("skipped")
	cluster.Eventually(t, "more runs of the probe", func() error {
		if n := writes("skipped") - before; n < 5 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
	if n := writes("success"); n != 2 {
		t.Errorf("it has written %v times", n)
	}
}

// runs is how often the reporter's probe has succeeded.
func (r *running) runs(t *testing.T) float64 {
	t.Helper()
	return r.Metric(t, `node_readiness_agent_probe_runs_total{condition="`+calico+`",result="success"}`)
}

func TestTheReporterSurvivesAnOutage(t *testing.T) {
	const node = "reported-late"
	shared(t).Create(build.MakeNode(node).Obj())
	url, status := endpoint(t)
	env := map[string]string{"NODE_NAME": node, "CHECK_ENDPOINT": url, "CONDITION_TYPE": calico, "CHECK_INTERVAL": "100ms"}
	all := []*running{
		startAgent(t, env, "--kubeconfig", shared(t).Account("kube-system", "watching", watching), "--log-level=debug"),
		startAgent(t, env, "--kubeconfig", shared(t).Account("kube-system", "patching", patching), "--log-level=debug"),
	}
	becomes(t, node, calico, "False", "EndpointNotReady")
	api := shared(t).APIServer
	cluster.Must(t, api.Kill())
	status.Store(http.StatusOK)
	for _, a := range all { // so that the change falls into the outage
		cluster.Eventually(t, "the probe succeeds", func() error {
			if a.runs(t) == 0 {
				return errors.New("the probe has not succeeded")
			}
			return nil
		})
	}
	cluster.Must(t, api.Start(t.Context()))
	becomes(t, node, calico, "True", "EndpointOK")
}

func TestTheReporterAnswersBalancersWhereItIsToldAPort(t *testing.T) {
	url, _ := endpoint(t)
	env := map[string]string{"NODE_NAME": "x", "CHECK_ENDPOINT": url, "CONDITION_TYPE": calico, "LISTEN_PORT": "0"}
	a := startAgent(t, env, "--kubeconfig=/nonexistent")
	if got := a.Health(t, ""); got.Code != 200 {
		t.Errorf("got %+v", got)
	}
}

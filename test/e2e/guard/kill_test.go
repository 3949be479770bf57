// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

// keepEven denies the operator the deletion of every second pod of a namespace.
const keepEven = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: keep-even}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [pods]}
  validations:
  - expression: request.userInfo.username != '` + cluster.OperatorUser + `' || !request.name.matches('[02468]$')
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: keep-even}
spec: {policyName: keep-even, validationActions: [Deny]}
`

// TestTheOperatorIsKilledWhileItEvicts: the next one goes on where it was, and no pod is evicted twice. However fast it
// is, it cannot have evicted all pods before it is killed. Nothing here needs an election: a replica that leads knows
// no more than one that starts.
func TestTheOperatorIsKilledWhileItEvicts(t *testing.T) {
	e := newEnv(t)
	rule := e.rule(600)
	node := e.node("n", true)
	pods := e.pods(node, 60, 1)
	policy := e.ApplyText(keepEven)
	e.Must(cluster.AwaitPolicies(t.Context(), e.Client))

	e.SetKubelet(node, false)
	e.deniedAtLeast(pods, attempts) // the node controller tries none of them again
	limited, cancel := context.WithTimeout(t.Context(), cluster.Limit)
	defer cancel()
	killed := errors.New("killed")
	ended, err := e.Watch(limited, &corev1.PodList{}, func(v watch.Event) error {
		if p, ok := v.Object.(*corev1.Pod); ok && p.Spec.NodeName == node && p.DeletionTimestamp != nil {
			return cmp.Or(e.Operator.Kill(), killed)
		}
		return nil
	}, client.InNamespace(pods[0].Namespace))
	e.Must(err)
	e.holdEnds(rule, node)
	if err := <-ended; !errors.Is(err, killed) {
		t.Fatalf("the operator has evicted no pod: %v", err)
	}
	evicted := e.evicted(pods)
	t.Logf("killed after %d of %d pods", evicted, len(pods))
	for _, o := range policy {
		e.Remove(o)
	}
	e.Must(e.Operator.Start(t.Context()))
	e.Eventually("all pods are evicted", e.gone(pods))
	all := e.deletions()
	for _, p := range pods {
		evictions, cut := 0, 0
		for d, n := range all {
			switch {
			case d.pod != p.Name, d.user == "localcluster-kwok",
				d.user == "system:serviceaccount:kube-system:pod-garbage-collector":
			case d.code == http.StatusOK:
				evictions += n
			case d.user == cluster.OperatorUser && (d.code < 400 || d.code > http.StatusConflict):
				cut += n // the operator died while it was answered; it may have been carried out anyway
			}
		}
		if evictions > 1 || evictions == 0 && cut == 0 {
			t.Errorf("pod %s was evicted %d times; %d requests were cut off", p.Name, evictions, cut)
			for d, n := range all {
				if d.pod == p.Name {
					t.Logf("%d x code %d for %s", n, d.code, d.user)
				}
			}
		}
	}
}

// evicted is how many of the pods the operator has evicted.
func (e *env) evicted(pods []*corev1.Pod) int {
	e.T.Helper()
	n := 0
	all := e.deletions()
	for _, p := range pods {
		n += all[deletion{cluster.OperatorUser, p.Name, 200}]
	}
	return n
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/test/cluster"
)

// TestTheOperatorIsKilledWhileItEvicts: the next one goes on where it was, and no pod is evicted twice. Nothing here
// needs an election: a replica that leads knows no more than one that starts.
func TestTheOperatorIsKilledWhileItEvicts(t *testing.T) {
	e := newEnv(t)
	e.rule(15)
	node := e.node("n", true)
	pods := e.pods(node, 60, 1)

	e.SetKubelet(node, false)
	e.deniedAtLeast(pods[:1], 1)
	e.Eventually("the operator evicts", func() error {
		if e.evicted(pods) == 0 {
			return fmt.Errorf("nothing is evicted")
		}
		return nil
	})
	e.Must(e.Operator.Kill())
	evicted := e.evicted(pods)
	t.Logf("killed after %d of %d pods", evicted, len(pods))
	if evicted == len(pods) {
		t.Error("the operator had evicted all pods before it was killed: this does not test that the next one goes on")
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

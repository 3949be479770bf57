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

// TestTheLeaderIsKilledWhileItEvicts: the next one goes on where it was, and no pod is evicted twice.
func TestTheLeaderIsKilledWhileItEvicts(t *testing.T) {
	c := newTest(t)
	c.rule(15)
	node := c.node("n", true)
	pods := c.pods(node, 60, 1)
	address, err := cluster.FreeAddress()
	c.do(err)
	next, err := c.replica(t.Context(), "operator-next", address)
	c.do(err)

	c.link(node, false)
	c.deniedAtLeast(pods[:1], 1)
	c.eventually("the leader evicts", func() error {
		if c.evicted(pods) == 0 {
			return fmt.Errorf("nothing is evicted")
		}
		return nil
	})
	c.do(c.Operator.Kill())
	t.Logf("killed after %d of %d pods", c.evicted(pods), len(pods))
	t.Cleanup(func() { // the others of this package's tests are answered by the first replica
		c.do(next.Stop())
	})
	c.eventually("all pods are evicted", func() error { return c.gone(pods) })
	c.do(c.Operator.Start(t.Context()))
	all := c.deletions()
	for _, p := range pods {
		evictions, cut := 0, 0
		for d, n := range all {
			switch {
			case d.pod != p.Name || d.user == "system:serviceaccount:kube-system:pod-garbage-collector" || d.user == "localcluster-kwok":
			case d.code == http.StatusOK:
				evictions += n
			case d.user == operator && (d.code < 400 || d.code > http.StatusConflict):
				cut += n // the operator died while it was answered; it may have been carried out all the same
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
func (c *test) evicted(pods []*corev1.Pod) int {
	c.t.Helper()
	n := 0
	all := c.deletions()
	for _, p := range pods {
		n += all[deletion{operator, p.Name, 200}]
	}
	return n
}

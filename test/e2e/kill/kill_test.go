// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// leaseName is the name of the operator's lease.
	leaseName = "operator.nodegate.io"
	// frozen and away are for how long the API server does not answer, and is not there: longer than a lease.
	frozen, away = 15 * time.Second, 30 * time.Second
)

func TestTheOperatorIsKilledAnywhere(t *testing.T) {
	binary := buildOperator(t)
	c := cluster.ForTest(t, cluster.Options{CRD: true})
	f := newFleet(t, c)
	solo := startReplica(t, f.Cluster, binary, "solo", nil)
	for _, n := range f.nodes { // then all are in service
		for _, c := range []string{condA, condB, condC} {
			f.report(n, c, true)
		}
	}
	f.converges("all nodes are ready")
	stop := f.watchLimit()
	for _, k := range []kind{nodePatch, event, status, finalizer} {
		for _, after := range []bool{false, true} {
			f.play(trap{kind: k, after: after, n: 1 + f.random.IntN(most[k])}, nil, solo)
		}
	}
	f.outage(func() {
		pid := solo.PID()
		f.Must(f.APIServer.Pause())
		time.Sleep(frozen)
		f.Must(f.APIServer.Resume())
		if now := solo.PID(); now != pid {
			t.Errorf("the only replica did not survive that the API server froze: process %d, then %d", pid, now)
		}
	})
	solo.end(t)

	l := &leadership{}
	left, right := startReplica(t, f.Cluster, binary, "left", l), startReplica(t, f.Cluster, binary, "right", l)
	for _, tr := range []trap{{nodePatch, true, 3}, {status, false, 1}, {lease, false, 1}, {lease, true, 1}} {
		f.play(tr, l, left, right)
	}
	f.Must(stop())
	release := keep(t, []*replica{left, right})
	f.outage(func() {
		f.Must(f.APIServer.Kill())
		time.Sleep(away)
		f.Must(f.APIServer.Start(t.Context()))
		f.Eventually("rules are served", func() error { // a moment after the rest
			return f.Client.List(t.Context(), &v1alpha1.NodeReadinessRuleList{})
		})
	})
	release()
	left.end(t)
	right.end(t)
}

// most is up to which write of a kind a trap waits.
var most = map[kind]int{nodePatch: 30, event: 10, status: 3, finalizer: 2}

// play disturbs the fleet until the trap has killed a replica, and for as long as that replica is down and catches up.
func (f *fleet) play(tr trap, l *leadership, replicas ...*replica) {
	f.T.Helper()
	for _, r := range replicas {
		r.proxy.arm(&tr)
	}
	var victim *replica
	began := time.Now()
	for victim == nil {
		if time.Since(began) > cluster.Limit {
			f.T.Fatalf("no replica was %s", tr)
		}
		f.disturb()
		for _, r := range replicas {
			if r.PID() == 0 {
				victim = r
			}
		}
	}
	for _, r := range replicas {
		r.proxy.arm(nil)
	}
	if l != nil {
		f.takeOver(tr, l, victim, replicas)
	}
	f.disturbFor(300 * time.Millisecond)
	f.Must(victim.Start(f.T.Context()))
	f.disturbFor(800 * time.Millisecond)
	if l == nil && f.random.IntN(2) == 0 { // once more, at no write, while it catches up
		f.Must(victim.Kill())
		f.Must(victim.Start(f.T.Context()))
	}
	f.T.Logf("%s after %s", tr, time.Since(began).Round(time.Millisecond))
	f.converges(tr.String())
	f.T.Logf("it was done %s after the disturbance began", time.Since(began).Round(time.Millisecond))
}

func (f *fleet) disturbFor(most time.Duration) {
	for end := time.Now().Add(time.Duration(f.random.Int64N(int64(most)))); time.Now().Before(end); {
		f.disturb()
	}
}

// takeOver waits until the other replica leads, once after the lease has expired, and otherwise after it was deleted.
func (f *fleet) takeOver(tr trap, l *leadership, victim *replica, replicas []*replica) {
	f.T.Helper()
	if tr != (trap{kind: lease, after: true, n: 1}) {
		victim.proxy.settle() // a write that the victim sent before must not count as one beside the next leader
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName}}
		f.Must(client.IgnoreNotFound(f.Client.Delete(f.T.Context(), lease)))
	}
	f.Eventually("the other replica leads", func() error {
		if leader := l.is(); leader == victim.name {
			return fmt.Errorf("replica %s leads, of %d", leader, len(replicas))
		}
		return nil
	})
}

// outage lets the operator begin with much to do, has the API server go away, and disturbs the fleet when it is back.
func (f *fleet) outage(away func()) {
	f.T.Helper()
	for _, n := range f.nodes {
		f.report(n, condA, f.random.IntN(2) == 0)
		f.report(n, condC, f.random.IntN(2) == 0)
	}
	away()
	f.disturbFor(time.Second)
	f.converges("after an outage of the API server")
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// caughtUp bounds the wait after an outage. It usually takes a few seconds; a replica that was told something wrong by
	// a server that had only just started may wait for a minute, and then once more.
	caughtUp = 4 * time.Minute
	// restartDelay is after what time a replica that has ended is started again, as kubelet would.
	restartDelay = time.Second
)

// outages has the API server freeze, and go away, while the operator is in the middle of its work.
func outages(t *testing.T, binary string, seed uint64) {
	c := &campaign{model: newModel(t), seed: seed}
	away := time.Duration(setting(t, "NODEGATE_KILL_OUTAGE", 60)) * time.Second
	server := c.Cluster.APIServer

	solo := &replica{name: "solo"}
	solo.run(t, c.model, binary, c.Cluster.Kubeconfig(), false)
	pid := solo.process.PID()
	c.outage(t, []*replica{solo}, func() {
		cluster.Must(t, server.Pause())
		time.Sleep(away / 4)
		cluster.Must(t, server.Resume())
	})
	if now := solo.process.PID(); now != pid {
		t.Errorf("the only replica did not survive that the API server froze: process %d, then %d", pid, now)
	}
	end(t, solo)

	two := []*replica{{name: "left"}, {name: "right"}}
	for _, r := range two {
		r.run(t, c.model, binary, c.Cluster.Kubeconfig(), true)
	}
	stop := kubelet(c.model, two)
	t.Cleanup(stop)
	c.outage(t, two, func() {
		cluster.Must(t, server.Kill())
		time.Sleep(away)
		cluster.Must(t, server.Start(t.Context()))
		cluster.Eventually(t, "rules are served", func() error { // a moment after the rest
			return c.Client.List(t.Context(), &v1alpha1.NodeReadinessRuleList{})
		})
	})
	stop()
	end(t, two...)
}

// outage disturbs everything, has the API server go away in the middle of the operator's work, disturbs everything once
// more as soon as it is back, and sees that all becomes as it is to be.
func (c *campaign) outage(t *testing.T, replicas []*replica, away func()) {
	t.Helper()
	c.round++
	c.newPage()
	rng := rand.New(rand.NewPCG(c.seed, uint64(c.round)<<48))
	nodes, rules := &nodeActor{w: c.model, slots: slots}, &ruleActor{w: c.model}
	nodes.settle(t.Context(), rng)
	rules.start(t.Context(), rng)
	c.disturb(t.Context(), rng, 1500*time.Millisecond, &foreignWriter{w: c.model}, nodes, rules)
	for len(c.rules.names()) < mostRules {
		rules.create(t.Context(), rng, oneOf(rng, ruleNames...))
	}
	c.converge(t, replicas, converged)

	rules.remove(t.Context(), c.rules.names()[0])
	for _, condition := range conditionTypes {
		status := oneOf(rng, "True", "False")
		for _, s := range c.slots {
			if !s.there {
				continue
			}
			nodes.report(t.Context(), s, report{statuses: map[string]string{condition: status}})
		}
	}
	c.note("the API server goes away")
	away()
	c.note("the API server is back")
	c.disturb(t.Context(), rng, time.Second, &foreignWriter{w: c.model}, nodes, rules)
	began := time.Now()
	c.converge(t, replicas, caughtUp)
	t.Logf("caught up %s after the last disturbance", time.Since(began).Round(100*time.Millisecond))
}

// kubelet starts replicas again that end by themselves, until it is stopped.
func kubelet(w *model, replicas []*replica) (stop func()) {
	stopped := make(chan struct{})
	var all sync.WaitGroup
	for _, r := range replicas {
		r.kept = true
		all.Go(func() {
			for {
				select {
				case <-stopped:
					return
				case <-r.process.Exited():
				}
				w.note("replica %s has ended", r.name)
				select {
				case <-stopped:
					return
				case <-time.After(restartDelay):
				}
				if err := r.process.Start(context.Background()); err != nil {
					w.fault("starting replica %s again: %v", r.name, err)
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(stopped)
		all.Wait()
	})
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/bench/measure"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// heartbeatsPerSecond are those of all nodes, for up to 15,000, and steadyFor is for how long they come.
	heartbeatsPerSecond, steadyFor = 50, 20 * time.Second
	// reportEvery is how often a kubelet reports while nothing changes, in seconds: more nodes send more heartbeats.
	reportEvery = 300
	// changeEvery is how often the evidence of one node changes among them, a thousand times.
	changeEvery, changesFor = 100 * time.Millisecond, 100 * time.Second
)

// runSynthetic measures the operator against a synthetic server.
func runSynthetic(ctx context.Context, o *options) error {
	l, stop, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	defer stop()
	stolen := measure.Stolen()
	if err := l.measureAll(ctx); err != nil {
		return err
	}
	run := o.result(l.results)
	run.Rounds, run.Evidence, run.Stolen = 1, "", (measure.Stolen() - stolen).Seconds()
	if o.outage {
		run.Evidence = measure.Outage
	}
	return run.Write(o.json)
}

// measureAll takes the operator through all parts, or through an outage.
func (l *lab) measureAll(ctx context.Context) error {
	l.expect(0)
	began := time.Now()
	p, err := l.run(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = p.Kill() }()
	say("  ready after %s", time.Since(began).Round(time.Millisecond))
	if err := l.looked(ctx, p); err != nil { // what it does as it starts is not measured
		return err
	}
	part := func(title string, f func() error) {
		if err == nil {
			err = l.measured(p, "operator: "+title, f)
		}
	}
	part("rules applied", func() error { return l.burst(ctx, l.rules, l.apply) })
	part("all evidence turns good", func() error { return l.turnAll(ctx, corev1.ConditionTrue, l.nodes) })
	part("all evidence turns bad", func() error { return l.turnAll(ctx, corev1.ConditionFalse, l.nodes) })
	part("the same again: good", func() error { return l.turnAll(ctx, corev1.ConditionTrue, l.nodes) })
	if err == nil && l.outage {
		return l.limited(ctx, p)
	}
	part("heartbeats only", func() error { return l.steady(ctx, false) })
	part("heartbeats, and 10 changes a second", func() error { return l.steady(ctx, true) })
	part("all nodes listed again", func() error { l.server.Relist(); return l.quiet(ctx) })
	if err == nil {
		err = l.statuses(ctx, l.nodes, 0)
	}
	if err == nil {
		err = l.restart(ctx, p)
	}
	if err == nil {
		err = l.standby(ctx)
	}
	return err
}

// burst carries out a change, and waits until all nodes have the taints that are expected.
func (l *lab) burst(ctx context.Context, taints int, change func() error) error {
	l.expect(taints)
	l.mu.Lock()
	for i := range l.from {
		l.from[i] = time.Now()
	}
	l.mu.Unlock()
	if err := change(); err != nil {
		return err
	}
	if err := l.wait(ctx, 0); err != nil {
		return err
	}
	return l.quiet(ctx)
}

// quiet waits until nothing is written for a while.
func (l *lab) quiet(ctx context.Context) error {
	for before := l.server.Counts(); sleep(ctx, idleFor); {
		after := l.server.Counts()
		if after == before {
			return nil
		}
		before = after
	}
	return ctx.Err()
}

func (l *lab) turnAll(ctx context.Context, status corev1.ConditionStatus, nodes int) error {
	taints := 0
	if status != corev1.ConditionTrue {
		taints = l.rules
	}
	return l.burst(ctx, taints, func() error {
		for i := range nodes {
			l.turn(i, status)
		}
		return nil
	})
}

// apply creates the rules.
func (l *lab) apply() error {
	for i := range l.rules {
		rule := newRule(i)
		rule.Generation = 1
		rule.Spec.Conditions = []v1alpha1.ConditionRequirement{{Type: conditionType(i), RequiredStatus: "True"}}
		l.server.Put("nodereadinessrules", rule)
	}
	return nil
}

// steady sends heartbeats, and changes one node after the other among them if asked to.
func (l *lab) steady(ctx context.Context, changes bool) error {
	// The bench's own garbage collections, of all its nodes, would take the cores and count as the operator's delays.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	l.expect(-1)
	heartbeat, change := time.NewTicker(time.Second/time.Duration(l.heartbeats())), time.NewTicker(changeEvery)
	defer heartbeat.Stop()
	defer change.Stop()
	turned, long := 0, steadyFor
	if changes {
		long = changesFor
	}
	for end := time.Now().Add(long); time.Now().Before(end) && ctx.Err() == nil; {
		select {
		case <-heartbeat.C:
			l.beat(int(time.Now().UnixNano()) % l.nodes)
		case <-change.C:
			if !changes {
				continue
			}
			status, taints := corev1.ConditionFalse, l.rules
			if turned/l.nodes%2 == 1 { // all nodes have changed, so they change back
				status, taints = corev1.ConditionTrue, 0
			}
			l.expectOne(taints)
			l.turn(turned%l.nodes, status)
			turned++
		}
	}
	if !changes {
		return ctx.Err()
	}
	if err := l.quiet(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	delays := l.delays
	l.mu.Unlock()
	err := l.turnAll(ctx, corev1.ConditionTrue, min(turned, l.nodes))
	l.mu.Lock()
	l.delays = delays
	l.mu.Unlock()
	return err
}

// heartbeats are how many arrive in a second.
func (l *lab) heartbeats() int { return max(heartbeatsPerSecond, l.nodes/reportEvery) }

// expectOne makes the next node that has a number of taints count.
func (l *lab) expectOne(taints int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want = taints
}

// statuses waits until each rule's status has the right counts.
func (l *lab) statuses(ctx context.Context, ready, held int) error {
	want := v1alpha1.NodeCounts{Matched: int32(l.nodes), Ready: int32(ready), Held: int32(held)}
	return cluster.Poll(ctx, l.timeout, func() error {
		for _, rule := range l.server.Rules() {
			if got := rule.Status.Nodes; got == nil || *got != want {
				return fmt.Errorf("the status of rule %s has %+v, not %+v", rule.Name, got, want)
			}
		}
		return nil
	})
}

// looked waits until the operator has looked at each node.
func (l *lab) looked(ctx context.Context, p *process) error {
	return cluster.Poll(ctx, l.timeout, func() error {
		n, err := p.reconciles(ctx)
		if err == nil && n < l.nodes {
			err = fmt.Errorf("%d of %d nodes are looked at", n, l.nodes)
		}
		return err
	})
}

// restart ends the operator and starts it again: with nothing to do, and then with one node to write.
func (l *lab) restart(ctx context.Context, p *process) error {
	err := p.Stop()
	began := time.Now()
	if err := errors.Join(err, l.start(ctx, p)); err != nil {
		return err
	}
	err = l.measured(p, "operator: restart with nothing to do", func() error {
		err := l.looked(ctx, p)
		say("  all nodes are looked at %s after the start", time.Since(began).Round(time.Millisecond))
		return errors.Join(err, l.quiet(ctx))
	})
	if err != nil {
		return err
	}
	err = p.Stop()
	l.turn(0, corev1.ConditionFalse)
	l.expect(l.rules)
	l.mu.Lock()
	l.from[0] = time.Now()
	l.mu.Unlock()
	if err := errors.Join(err, l.start(ctx, p)); err != nil {
		return err
	}
	// The wall time begins when the operator is ready. The percentiles, of one node, begin with its start.
	err = l.measured(p, "operator: restart, then one change", func() error {
		return errors.Join(l.wait(ctx, l.nodes-1), l.quiet(ctx))
	})
	if err == nil {
		err = l.turnAll(ctx, corev1.ConditionTrue, 1)
	}
	return errors.Join(err, p.Stop())
}

// standby measures the replica that does not lead.
func (l *lab) standby(ctx context.Context) error {
	leader, err := l.run(ctx, 1)
	if err != nil {
		return err
	}
	defer leader.Kill() //nolint:errcheck // done with it
	if err := l.looked(ctx, leader); err != nil {
		return err
	}
	standby, err := l.run(ctx, 2)
	if err != nil {
		return err
	}
	defer standby.Kill() //nolint:errcheck // done with it
	return l.measured(standby, "standby: all nodes listed again", func() error {
		l.server.Relist()
		return l.quiet(ctx)
	})
}

// limited measures an outage of all nodes and its end under maxUnavailable.
func (l *lab) limited(ctx context.Context, p *process) error {
	limit := intstr.FromString("30%")
	for _, rule := range l.server.Rules() {
		next := rule.DeepCopy()
		next.Spec.MaxUnavailable = &limit
		next.Generation++
		l.server.Put("nodereadinessrules", next)
	}
	err := l.quiet(ctx)
	held := (l.nodes*3 + 9) / 10
	part := func(title string, status corev1.ConditionStatus, missing int) {
		if err == nil {
			err = l.measured(p, title, func() error {
				taints := l.rules
				if status == corev1.ConditionTrue {
					taints = 0
				}
				l.expect(taints)
				for i := range l.nodes {
					l.turn(i, status)
				}
				return errors.Join(l.wait(ctx, missing), l.quiet(ctx))
			})
		}
	}
	part("operator: outage under maxUnavailable", corev1.ConditionFalse, l.nodes-held)
	part("operator: its end", corev1.ConditionTrue, 0)
	if err == nil {
		err = l.statuses(ctx, l.nodes, 0)
	}
	return err
}

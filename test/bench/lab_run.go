// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/bench/measure"
	"github.com/nodegate/nodegate/test/cluster"
)

// runSynthetic measures the operator against a synthetic server.
func runSynthetic(ctx context.Context, run *measure.Run, outage bool) error {
	l, stop, err := newLab(ctx, run)
	if err != nil {
		return err
	}
	defer stop()
	run.Evidence, run.Rounds = "", 1
	if outage {
		run.Evidence = measure.Outage
	}
	if err := l.measureAll(ctx, outage); err != nil {
		return err
	}
	return run.Finish()
}

// measureAll takes the operator through all parts, or through an outage.
func (l *lab) measureAll(ctx context.Context, outage bool) error {
	l.expect(0)
	began := time.Now()
	p, err := l.run(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = p.Kill() }()
	log.Printf("  ready after %s", time.Since(began).Round(time.Millisecond))
	if err := l.looked(ctx, p); err != nil { // what it does as it starts is not measured
		return err
	}
	part := func(title string, f func() error) {
		if err == nil {
			err = l.measured(p, "operator: "+title, f)
		}
	}
	turn := func(title string, status corev1.ConditionStatus) {
		part(title, func() error { return l.turnAll(ctx, status, l.Nodes, 0) })
	}
	part("rules applied", func() error { return l.burst(ctx, l.Rules, 0, l.apply) })
	turn("all evidence turns good", corev1.ConditionTrue)
	turn("all evidence turns bad", corev1.ConditionFalse)
	turn("the same again: good", corev1.ConditionTrue)
	if outage {
		if err == nil {
			err = l.limit(ctx)
		}
		missing := l.Nodes - (l.Nodes*3+9)/10
		part("outage under maxUnavailable", func() error { return l.turnAll(ctx, corev1.ConditionFalse, l.Nodes, missing) })
		turn("its end", corev1.ConditionTrue)
		return errors.Join(err, l.statuses(ctx))
	}
	part("heartbeats only", func() error { l.steady(ctx, 0); return ctx.Err() })
	part("heartbeats, and 10 changes a second", func() error { l.steady(ctx, changes); return l.quiet(ctx) })
	if err == nil {
		err = l.turnAll(ctx, corev1.ConditionTrue, min(changes, l.Nodes), 0)
	}
	part("all nodes listed again", func() error { l.server.Relist(); return l.quiet(ctx) })
	for _, next := range []func() error{
		func() error { return l.statuses(ctx) },
		func() error { return l.restart(ctx, p) },
		func() error { return l.standby(ctx) },
	} {
		if err == nil {
			err = next()
		}
	}
	return err
}

// burst carries out a change, and waits until all nodes but some have the taints that are expected.
func (l *lab) burst(ctx context.Context, taints, but int, change func()) error {
	l.expect(taints)
	for i := range l.Nodes {
		l.counts(i, time.Now())
	}
	change()
	if _, err := l.wait(ctx, but); err != nil {
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

// turnAll changes the evidence of the first nodes.
func (l *lab) turnAll(ctx context.Context, status corev1.ConditionStatus, nodes, but int) error {
	taints := 0
	if status != corev1.ConditionTrue {
		taints = l.Rules
	}
	return l.burst(ctx, taints, but, func() {
		for i := range nodes {
			l.turn(i, status)
		}
	})
}

// apply creates the rules.
func (l *lab) apply() {
	for i := range l.Rules {
		rule := newRule(i)
		rule.Generation = 1
		rule.Spec.Conditions = []v1alpha1.ConditionRequirement{{Type: conditionType(i), RequiredStatus: "True"}}
		l.server.Put("nodereadinessrules", rule)
	}
}

// steady sends heartbeats, and changes one node after the other among them, so many times, unless that is 0.
func (l *lab) steady(ctx context.Context, changes int) {
	// The bench's own garbage collections, of all its nodes, would take the cores and count as the operator's delays.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	l.expect(-1)
	heartbeat, change := time.NewTicker(time.Second/time.Duration(l.heartbeats())), time.NewTicker(changeEvery)
	defer heartbeat.Stop()
	defer change.Stop()
	end := time.After(steadyFor)
	if changes > 0 {
		end = nil
	}
	for turned := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-heartbeat.C:
			l.beat(int(time.Now().UnixNano()) % l.Nodes)
		case <-change.C:
			if changes == 0 {
				continue
			}
			status, taints := corev1.ConditionFalse, l.Rules
			if turned/l.Nodes%2 == 1 { // all nodes have changed, so they change back
				status, taints = corev1.ConditionTrue, 0
			}
			l.expectOne(taints)
			l.turn(turned%l.Nodes, status)
			if turned++; turned == changes {
				return
			}
		}
	}
}

// heartbeats are how many arrive in a second.
func (l *lab) heartbeats() int { return max(heartbeatsPerSecond, l.Nodes/reportEvery) }

// expectOne makes the next node that has a number of taints count.
func (l *lab) expectOne(taints int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want = taints
}

// statuses waits until each rule's status says that all nodes are ready.
func (l *lab) statuses(ctx context.Context) error {
	want := v1alpha1.NodeCounts{Matched: int32(l.Nodes), Ready: int32(l.Nodes)}
	return cluster.Poll(ctx, runLimit, func() error {
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
	return cluster.Poll(ctx, runLimit, func() error {
		n, err := p.reconciles(ctx)
		if err == nil && n < l.Nodes {
			err = fmt.Errorf("%d of %d nodes are looked at", n, l.Nodes)
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
		log.Printf("  all nodes are looked at %s after the start", time.Since(began).Round(time.Millisecond))
		return errors.Join(err, l.quiet(ctx))
	})
	if err != nil {
		return err
	}
	err = p.Stop()
	l.turn(0, corev1.ConditionFalse)
	l.expect(l.Rules)
	l.counts(0, time.Now())
	if err := errors.Join(err, l.start(ctx, p)); err != nil {
		return err
	}
	// The wall time begins when the operator is ready. The percentiles, of one node, begin with its start.
	err = l.measured(p, "operator: restart, then one change", func() error {
		_, err := l.wait(ctx, l.Nodes-1)
		return errors.Join(err, l.quiet(ctx))
	})
	if err == nil {
		err = l.turnAll(ctx, corev1.ConditionTrue, 1, 0)
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

// limit gives all rules a maxUnavailable.
func (l *lab) limit(ctx context.Context) error {
	limit := intstr.FromString("30%")
	for _, rule := range l.server.Rules() {
		next := rule.DeepCopy()
		next.Spec.MaxUnavailable = &limit
		next.Generation++
		l.server.Put("nodereadinessrules", next)
	}
	return l.quiet(ctx)
}

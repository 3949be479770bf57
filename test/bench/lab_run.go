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

// step is a part of the operator's work. It is measured, unless it has no title.
type step struct {
	title string
	do    func(context.Context) error
}

// steps returns what a run consists of, after the start of the operator.
func (l *lab) steps(p *contestant, outage bool) []step {
	turn := func(title string, status corev1.ConditionStatus, nodes, but int) step {
		return step{title, func(ctx context.Context) error { return l.turnAll(ctx, status, nodes, but) }}
	}
	all := []step{
		{"rules applied", func(ctx context.Context) error { return l.burst(ctx, l.Rules, 0, l.apply) }},
		turn("all evidence turns good", corev1.ConditionTrue, l.Nodes, 0),
		turn("all evidence turns bad", corev1.ConditionFalse, l.Nodes, 0),
		turn("the same again: good", corev1.ConditionTrue, l.Nodes, 0),
	}
	if outage {
		return append(all,
			step{do: l.limit},
			turn("outage under maxUnavailable", corev1.ConditionFalse, l.Nodes, l.Nodes-(l.Nodes*3+9)/10),
			turn("its end", corev1.ConditionTrue, l.Nodes, 0),
			step{do: l.statuses},
		)
	}
	return append(all,
		step{"heartbeats only", func(ctx context.Context) error { return l.steady(ctx, 0) }},
		step{"heartbeats, and 10 changes a second", func(ctx context.Context) error {
			return errors.Join(l.steady(ctx, changes), l.quiet(ctx))
		}},
		turn("", corev1.ConditionTrue, min(changes, l.Nodes), 0),
		step{"all nodes listed again", l.relist},
		step{do: l.statuses},
		step{do: func(ctx context.Context) error { return l.restart(ctx, p) }},
		step{do: l.standby},
	)
}

// measureAll takes the operator through all steps.
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
	for _, s := range l.steps(p, outage) {
		if s.title == "" {
			err = s.do(ctx)
		} else {
			err = l.measured(ctx, p, "operator: "+s.title, s.do)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
		rule := newRule(i, l.Evidence)
		rule.Generation = 1
		l.server.Put("nodereadinessrules", rule)
	}
}

// steady sends heartbeats, and changes one node after the other among them, so many times, unless that is 0.
func (l *lab) steady(ctx context.Context, changes int) error {
	// The bench's own garbage collections, of all its nodes, would take the cores and count as the operator's delays.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	l.expect(-1)
	perSecond := max(heartbeatsPerSecond, l.Nodes/reportEvery)
	heartbeat, change := time.NewTicker(time.Second/time.Duration(perSecond)), time.NewTicker(changeEvery)
	defer heartbeat.Stop()
	defer change.Stop()
	end := time.After(steadyFor)
	if changes > 0 {
		end = nil
	}
	for turned := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return nil
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
			l.mu.Lock()
			l.want = taints
			l.mu.Unlock()
			l.turn(turned%l.Nodes, status)
			if turned++; turned == changes {
				return nil
			}
		}
	}
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

// restart ends the operator and starts it again: with nothing to do, and then with one node to write.
func (l *lab) restart(ctx context.Context, p *contestant) error {
	err := p.Stop()
	began := time.Now()
	if err := errors.Join(err, p.Start(ctx)); err != nil {
		return err
	}
	err = l.measured(ctx, p, "operator: restart with nothing to do", func(ctx context.Context) error {
		l.expect(-1)
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
	if err := errors.Join(err, p.Start(ctx)); err != nil {
		return err
	}
	// The wall time begins when the operator is ready. The percentiles, of one node, begin with its start.
	err = l.measured(ctx, p, "operator: restart, then one change", func(ctx context.Context) error {
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
	return l.measured(ctx, standby, "standby: all nodes listed again", l.relist, leader.PID())
}

// relist makes all watches of nodes begin again.
func (l *lab) relist(ctx context.Context) error {
	l.expect(-1) // the times of the step before do not count for this one
	l.server.Relist()
	return l.quiet(ctx)
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

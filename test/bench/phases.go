// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/bench/measure"
	"github.com/nodegate/nodegate/test/cluster"
)

// The phases, in their order.
const (
	applied = iota
	turnedTrue
	turnedFalse
	beating
	restarted
)

var phaseTitles = []string{
	"rules applied to untainted nodes", "all evidence turns good", "all evidence turns bad", "heartbeats only",
	"a restart, then one change",
}

// measurement is what one contestant did in one phase of one round.
type measurement struct {
	wall       time.Duration // from the first write until the last change of a taint was seen
	last       time.Time     // when that was
	p50, p99   time.Duration // from a condition's write until its taint's change was seen
	usage      measure.Usage // until all is quiet
	peak       uint64
	requests   requests
	idleWrites int                            // after a restart with nothing to do
	changes    int                            // of taints, as seen
	wrongNodes int                            // that do not have the right taints
	rules      map[string]v1alpha1.NodeCounts // their statuses, of the operator
	wrong      error                          // what the contestant did wrong
}

// measure starts a contestant, takes it through all phases, and ends it.
func (b *bench) measure(ctx context.Context, name string) (phases []*measurement, err error) {
	if err := b.reset(ctx); err != nil {
		return nil, fmt.Errorf("resetting the nodes: %w", err)
	}
	kubeconfig, err := b.cluster.KubeconfigFor(userStem+name, "system:masters")
	if err != nil {
		return nil, err
	}
	c, err := newContestant(b.Run, name, b.operator, kubeconfig, false)
	if err != nil {
		return nil, err
	}
	if c.Component, err = b.cluster.Run(ctx, c.process); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	// What it asks for as it starts is not measured.
	if err := b.audit.quiet(ctx, c.user, newRequests()); err != nil {
		return nil, err
	}
	for phase := range b.phases {
		if phase == restarted && !c.isOperator() {
			continue // the floor remembers nothing
		}
		m, err := b.phase(ctx, c, phase)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", phaseTitles[phase], err)
		}
		m.wrong = b.check(name, phase, m)
		log.Printf("  %-32s %s", phaseTitles[phase], m.summary())
		phases = append(phases, m)
	}
	if c.isOperator() {
		if err := b.deleteRules(ctx); err != nil {
			return nil, fmt.Errorf("deleting the rules: %w", err)
		}
		last := phases[len(phases)-1]
		last.wrong = errors.Join(last.wrong, cluster.Poll(ctx, 10*time.Second, b.watch.clean))
	}
	// So that nothing is under way when it is told to end.
	return phases, b.audit.quiet(ctx, c.user, newRequests())
}

// phaseLimit is for how long a phase, or setting up the nodes, may take: a hundred times what it should.
func (b *bench) phaseLimit() time.Duration {
	return 2*time.Minute + time.Duration(b.Nodes)*100*time.Millisecond
}

// phase measures one phase.
func (b *bench) phase(ctx context.Context, c *contestant, phase int) (*measurement, error) {
	ctx, cancel := context.WithTimeout(ctx, b.phaseLimit())
	defer cancel()
	m := &measurement{requests: *newRequests()}
	runtime.GC() // of the bench, now rather than in the middle
	meter, err := measure.NewMeter(c.PID(), b.cluster.APIServer.PID(), b.cluster.Etcd.PID())
	if err != nil {
		return nil, err
	}
	switch phase {
	case beating:
		err = b.beat(ctx, m)
	case restarted:
		err = b.restart(ctx, c, m)
	default:
		err = b.change(ctx, c, phase, m)
	}
	if err != nil {
		return nil, errors.Join(err, ended(c))
	}
	if err := b.audit.quiet(ctx, c.user, &m.requests); err != nil {
		return nil, err
	}
	if phase != restarted { // as another process, which no floor does
		if m.usage, err = meter.Usage(); err != nil {
			return nil, errors.Join(err, ended(c))
		}
	}
	if m.peak, err = measure.Peak(c.PID()); err != nil {
		return nil, err
	}
	m.changes, m.wrongNodes = b.watch.seen()
	if phase == restarted {
		m.wrongNodes-- // the one whose evidence has turned good
	}
	if c.isOperator() {
		m.rules, err = b.ruleStatuses(ctx)
	}
	return m, err
}

// change carries out a phase in which taints change.
func (b *bench) change(ctx context.Context, c *contestant, phase int, m *measurement) error {
	want, status := b.Rules, corev1.ConditionFalse
	if phase == turnedTrue {
		want, status = 0, corev1.ConditionTrue
	}
	b.watch.expect(want)
	var began time.Time
	var from []time.Time
	if phase == applied {
		began = time.Now()
		if err := b.apply(ctx, c); err != nil {
			return err
		}
		from = slices.Repeat([]time.Time{time.Now()}, b.Nodes)
	} else {
		w, err := b.turn(ctx, b.writer, status)
		if err != nil {
			return err
		}
		began, from = w.first, w.acknowledged
	}
	reached, err := b.watch.wait(ctx, 0)
	if err != nil {
		return err
	}
	m.last = reached[len(reached)-1].at
	m.wall = m.last.Sub(began)
	delays := make([]time.Duration, len(reached))
	for i, r := range reached {
		delays[i] = max(0, r.at.Sub(from[r.node])) // it may be seen before the acknowledgement is
	}
	m.p50, m.p99 = measure.Percentile(delays, 50), measure.Percentile(delays, 99)
	return nil
}

// beat carries out the phase of heartbeats, in which nothing is to happen.
func (b *bench) beat(ctx context.Context, m *measurement) error {
	b.watch.expect(b.Rules) // as the phase before has left it
	began := time.Now()
	for i := range max(2, heartbeats*min(b.Nodes, warm)/b.Nodes) {
		if _, err := b.writer.heartbeat(ctx, i%2 == 0); err != nil {
			return err
		}
	}
	m.wall = time.Since(began)
	return nil
}

// restart carries out the phase in which the process starts again, first with nothing to do, and then after the
// evidence of one node has turned good. The time is that from the second start until that node's taints are gone.
func (b *bench) restart(ctx context.Context, c *contestant, m *measurement) error {
	b.watch.expect(b.Rules)
	if err := errors.Join(c.Stop(), c.Start(ctx)); err != nil {
		return err
	}
	idle := newRequests()
	if err := b.audit.quiet(ctx, c.user, idle); err != nil {
		return err
	}
	m.idleWrites = idle.writes
	if err := c.Stop(); err != nil {
		return err
	}
	if err := b.turnFirst(ctx, corev1.ConditionTrue); err != nil {
		return err
	}
	began := time.Now()
	if err := c.Start(ctx); err != nil {
		return err
	}
	err := cluster.Poll(ctx, b.phaseLimit(), func() error { return b.watch.untainted(0) })
	m.wall = time.Since(began)
	return err
}

func ended(c *contestant) error {
	if c.PID() == 0 {
		return fmt.Errorf("the process has ended: %s", c.LogTail(20)) // the log goes with the cluster
	}
	return nil
}

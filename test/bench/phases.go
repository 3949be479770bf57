// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

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
	phaseCount
)

var phaseTitles = [phaseCount]string{
	"rules applied to untainted nodes", "all evidence turns good", "all evidence turns bad", "heartbeats only",
	"a restart, then one change",
}

// measurement is what one contestant did in one phase of one round.
type measurement struct {
	wall               time.Duration // from the first write until the last change of a taint was seen
	written            time.Duration // from the first write until the last one was acknowledged
	p50, p90, p99, max time.Duration // from a condition's write until its taint's change was seen
	usage              measure.Usage
	peak               uint64
	requests           requests
	span               time.Duration // from the first write until all was quiet
	changes, wrong     int           // of taints, as seen; nodes that are not as they should be
	rules              []ruleStatus
	wantHeld           int // nodes that each rule should hold
	reconciles         int // of nodes, as the operator itself says
	idleWrites         int // after a restart with nothing to do
}

// measure starts a contestant, takes it through all phases, and ends it.
func (b *bench) measure(ctx context.Context, name string) (phases []*measurement, err error) {
	if err := b.reset(ctx); err != nil {
		return nil, fmt.Errorf("resetting the nodes: %w", err)
	}
	c, err := b.contestant(name)
	if err != nil {
		return nil, err
	}
	p, err := b.cluster.Run(ctx, c.process)
	if err != nil {
		return nil, err
	}
	logFrom := sizeOf(p.LogFile())
	defer func() {
		err = errors.Join(err, p.Stop())
		tellErrors(p.LogFile(), logFrom)
	}()
	// What it asks for as it starts is not measured.
	if err := b.audit.quiet(ctx, c.user, newRequests()); err != nil {
		return nil, err
	}
	for phase := range phaseCount {
		if phase == restarted && c.rules == 0 {
			phases = append(phases, &measurement{requests: *newRequests()}) // the floor remembers nothing
			continue
		}
		m, err := b.phase(ctx, c, p, phase)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", phaseTitles[phase], err)
		}
		say("  %-32s %s", phaseTitles[phase], m.summary(phase))
		phases = append(phases, m)
		if phase == beating && c.metrics != "" { // a restart makes them begin at zero
			b.compareClaims(ctx, c, phases)
		}
	}
	finish, cancel := context.WithTimeout(ctx, b.phaseLimit())
	defer cancel()
	if err := c.finish(finish); err != nil {
		return nil, fmt.Errorf("finishing: %w", err)
	}
	if c.rules > 0 {
		b.checkCleaned(ctx, phases)
	}
	// So that nothing is under way when it is told to end.
	return phases, b.audit.quiet(ctx, c.user, newRequests())
}

// phaseLimit is for how long a phase may take: a hundred times what it should.
func (b *bench) phaseLimit() time.Duration {
	return 2*time.Minute + time.Duration(b.nodes)*100*time.Millisecond
}

// phase measures one phase.
func (b *bench) phase(ctx context.Context, c *contestant, p *cluster.Component, phase int) (*measurement, error) {
	ctx, cancel := context.WithTimeout(ctx, b.phaseLimit())
	defer cancel()
	m := &measurement{requests: *newRequests()}
	before, err := reconciles(ctx, c)
	if err != nil {
		return nil, err
	}
	runtime.GC() // of the bench, now rather than in the middle
	if err := measure.ResetPeak(p.PID()); err != nil {
		return nil, err
	}
	meter, err := measure.NewMeter(p.PID(), b.cluster.APIServer.PID(), b.cluster.Etcd.PID())
	if err != nil {
		return nil, err
	}
	var began time.Time
	switch phase {
	case beating:
		began, err = b.beat(ctx, m)
	case restarted:
		began, err = b.restart(ctx, c, p, m)
		if err == nil { // as another process
			before = 0
			meter, err = measure.NewMeter(p.PID(), b.cluster.APIServer.PID(), b.cluster.Etcd.PID())
		}
	default:
		began, err = b.change(ctx, c, phase, m)
	}
	if err != nil {
		return nil, errors.Join(err, ended(p))
	}
	if err := b.audit.quiet(ctx, c.user, &m.requests); err != nil {
		return nil, err
	}
	m.span = time.Since(began)
	if m.usage, err = meter.Usage(); err != nil {
		return nil, errors.Join(err, ended(p))
	}
	if m.peak, err = measure.Peak(p.PID()); err != nil {
		return nil, err
	}
	after, err := reconciles(ctx, c)
	if err != nil {
		return nil, err
	}
	m.reconciles = after - before
	m.changes, m.wrong = b.watch.seenChanges()
	if phase == restarted {
		m.wrong-- // the one whose evidence has turned good
	}
	if c.rules > 0 {
		m.wantHeld = b.nodes
		switch phase {
		case turnedTrue:
			m.wantHeld = 0
		case restarted:
			m.wantHeld--
		}
		if m.rules, err = b.ruleStatuses(ctx); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// change carries out a phase in which taints change.
func (b *bench) change(ctx context.Context, c *contestant, phase int, m *measurement) (time.Time, error) {
	want, status := b.rules, corev1.ConditionFalse
	if phase == turnedTrue {
		want, status = 0, corev1.ConditionTrue
	}
	b.watch.expect(want)
	var began time.Time
	var from []time.Time
	if phase == applied {
		began = time.Now()
		if err := c.apply(ctx); err != nil {
			return began, err
		}
		acknowledged := time.Now()
		for range b.nodes {
			from = append(from, acknowledged)
		}
	} else {
		w, err := b.turn(ctx, status)
		if err != nil {
			return began, err
		}
		began, from = w.first(), w.acknowledged
	}
	m.written = latest(from).Sub(began)
	reached, err := b.watch.wait(ctx)
	if err != nil {
		return began, err
	}
	m.wall = latest(reached).Sub(began)
	delays := make([]time.Duration, len(reached))
	for i := range reached {
		delays[i] = max(0, reached[i].Sub(from[i])) // it may be seen before the acknowledgement is
	}
	m.p50, m.p90 = measure.Percentile(delays, 50), measure.Percentile(delays, 90)
	m.p99, m.max = measure.Percentile(delays, 99), measure.Percentile(delays, 100)
	return began, nil
}

// beat carries out the phase of heartbeats, in which nothing is to happen.
func (b *bench) beat(ctx context.Context, m *measurement) (time.Time, error) {
	b.watch.expect(b.rules) // as the phase before has left it
	var began, ended time.Time
	for i := range b.heartbeats {
		w, err := b.writer.heartbeat(ctx, i%2 == 0)
		if err != nil {
			return began, err
		}
		if began.IsZero() {
			began = w.first()
		}
		ended = w.last()
	}
	m.written = ended.Sub(began)
	m.wall = m.written
	return began, b.watch.waitFor(ctx, b.writer.latest())
}

// restart carries out the phase in which the process starts again, first with nothing to do, and then after the
// evidence of one node has turned good. The time is that from the second start until that node's taints are gone.
func (b *bench) restart(ctx context.Context, c *contestant, p *cluster.Component, m *measurement) (time.Time, error) {
	b.watch.expect(b.rules)
	if err := errors.Join(p.Stop(), p.Start(ctx)); err != nil {
		return time.Time{}, err
	}
	idle := newRequests()
	if err := b.audit.quiet(ctx, c.user, idle); err != nil {
		return time.Time{}, err
	}
	m.idleWrites = idle.nodePatches + idle.refused + idle.statusWrites + idle.ruleWrites + idle.events
	if err := p.Stop(); err != nil {
		return time.Time{}, err
	}
	only := newWriter(b.writer.client, b.rules, 1)
	only.names = b.writer.names[:1]
	if _, err := b.turnWith(ctx, only, corev1.ConditionTrue); err != nil {
		return time.Time{}, err
	}
	began := time.Now()
	if err := p.Start(ctx); err != nil {
		return began, err
	}
	err := cluster.Poll(ctx, b.phaseLimit(), func() error {
		if n := b.watch.taintsOf(0); n > 0 {
			return fmt.Errorf("the first node has %d taints", n)
		}
		return nil
	})
	m.wall = time.Since(began)
	return began, err
}

func ended(p *cluster.Component) error {
	if p.PID() == 0 {
		return fmt.Errorf("the process has ended: see %s", p.LogFile())
	}
	return nil
}

// reconciles is how many nodes the operator says it has looked at.
func reconciles(ctx context.Context, c *contestant) (int, error) {
	if c.metrics == "" {
		return 0, nil
	}
	text, err := request(ctx, http.MethodGet, c.metrics)
	if err != nil {
		return 0, fmt.Errorf("reading its metrics: %w", err)
	}
	n, err := sumMetric(text, "controller_runtime_reconcile_total", "node")
	return int(n), err
}

// compareClaims tells where the operator's own metrics say something else than was seen.
func (b *bench) compareClaims(ctx context.Context, c *contestant, phases []*measurement) {
	text, err := request(ctx, http.MethodGet, c.metrics)
	if err != nil {
		say("  its metrics could not be read: %v", err)
		return
	}
	operations, status, conflicts := 0, 0, 0
	for i, m := range phases {
		status += m.requests.statusWrites
		conflicts += m.requests.refused
		if i < beating {
			operations += b.nodes * b.rules
		}
	}
	for _, claim := range []struct {
		metric string
		seen   int
	}{
		{"node_readiness_taint_operations_total", operations},
		{"node_readiness_status_writes_total", status},
		{"node_readiness_patch_conflicts_total", conflicts},
		{"node_readiness_failures_total", 0},
		{"controller_runtime_reconcile_errors_total", 0},
	} {
		if got, err := sumMetric(text, claim.metric, ""); err != nil || got != float64(claim.seen) {
			say("  its metric %s has %v (%v), but the bench counts %d", claim.metric, got, err, claim.seen)
		}
	}
}

// sumMetric adds up a metric over all labels, or over those that have a value of the label "controller".
func sumMetric(text []byte, name, controller string) (sum float64, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	for _, m := range families[name].GetMetric() {
		if controller == "" || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
			return l.GetName() == "controller" && l.GetValue() == controller
		}) {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum, err
}

// checkCleaned checks that deleted rules have left nothing on the nodes.
func (b *bench) checkCleaned(ctx context.Context, phases []*measurement) {
	err := cluster.Poll(ctx, 10*time.Second, func() error {
		if n := b.watch.stained(); n > 0 {
			return fmt.Errorf("%d nodes have taints or records of deleted rules", n)
		}
		return nil
	})
	if err != nil {
		phases[len(phases)-1].wrong += b.watch.stained()
		say("  %v", err)
	}
}

func sizeOf(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// tellErrors tells what a contestant has logged as an error since its start.
func tellErrors(file string, from int64) {
	text, err := os.ReadFile(file)
	if err != nil || int64(len(text)) < from {
		return
	}
	const few = 5
	n := 0
	for line := range bytesLines(text[from:]) {
		if s := string(line); isError(s) {
			if n++; n <= few {
				say("  logged: %s", s)
			}
		}
	}
	if n > few {
		say("  and %d more errors", n-few)
	}
}

// isError tells errors by the forms of zap's two encoders, of klog and of the floor.
func isError(line string) bool {
	return strings.Contains(line, `"level":"error"`) || strings.Contains(line, "\tERROR\t") ||
		strings.HasPrefix(line, "error:") || strings.HasPrefix(line, "panic:") ||
		len(line) > 5 && line[0] == 'E' && line[1] >= '0' && line[1] <= '1' && line[5] == ' '
}

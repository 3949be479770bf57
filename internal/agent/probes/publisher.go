// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/internal/agent/checks"
	"github.com/nodegate/nodegate/internal/agent/nodewatch"
)

const (
	// batchDelay is how long a change waits for others, so that one patch has all of them.
	batchDelay = 50 * time.Millisecond
	// A write that was refused patientRetries times in a row is tried slowness times more slowly: then a person must
	// change something first, such as a policy, and agents of 10,000 nodes would ask hundreds of times a second.
	patientRetries, slowness = 10, 5
	// MaxChanges is how many conditions one patch changes. The policy nodegate-agent accepts 100 and counts a condition
	// that changes twice: before and after.
	MaxChanges = 50
)

// Source provides the node and a client.
type Source interface {
	// Known reports whether the API server has answered since the start. Before that, Object may be from a file.
	Known() bool
	// Object returns the last known node; nil if there is none.
	Object() *corev1.Node
	// Unavailable returns why the API server is unavailable; nil: it is available.
	Unavailable() error
	// Client returns the current client; nil if there is none.
	Client() rest.Interface
}

// Options configure a Publisher.
type Options struct {
	// Node is the node's name.
	Node    string
	Source  Source
	Log     *slog.Logger
	Metrics *Metrics
	// Update lets the publisher read and update the node's status if it may not patch it. The incumbent's reporter has
	// the permissions for that, and no others.
	Update bool
}

// Publisher runs probes and publishes their results as conditions.
//
// Each probe has a worker, which runs the probe's check through a checks.Runner and counts the results. One loop, Run,
// writes all conditions that are due in one patch. Workers never wait for the API server, and the loop never waits for
// a probe.
type Publisher struct {
	Options
	wake   chan struct{}
	booted func() time.Time // when the node booted, by its clock as it is set now; zero: unknown

	mu      sync.Mutex
	running map[string]*worker                // by condition type
	written map[string]time.Time              // by condition type: the run whose result was last written
	last    map[string]corev1.ConditionStatus // by condition type: what was last written
	rivals  map[string]bool                   // condition types that another client writes, too, each logged once
	seen    *corev1.Node                      // the last answer to a patch
	sweep   bool                              // the last value of Set's complete
	lastErr string                            // of the last write, so that a lasting failure is logged once
}

// worker is a probe that runs.
type worker struct {
	state
	early    *Finding // that is not counted yet; nil: none
	problem  string   // why the probe is impossible
	possible bool     // it had a result once
	stop     context.CancelFunc
}

// New returns a publisher.
func New(o Options) *Publisher {
	return &Publisher{Options: o, wake: make(chan struct{}, 1), booted: readBootTime, running: map[string]*worker{},
		written: map[string]time.Time{}, last: map[string]corev1.ConditionStatus{}, rivals: map[string]bool{}}
}

// Set replaces the probes, which run until ctx ends. Unchanged probes continue. Skipped ones keep their condition. No
// two probes publish the same condition. complete says that there are no other probes: then the publisher removes the
// conditions that an agent has published, by their reasons, and that no probe publishes now.
func (p *Publisher) Set(ctx context.Context, probes []Probe, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep = complete
	keep := map[string]bool{}
	for i := range probes {
		probe := &probes[i]
		name := probe.ConditionType
		keep[name] = true
		old := p.running[name]
		if old != nil && old.probe.Identity == probe.Identity {
			continue
		}
		if old != nil {
			old.stop() // without waiting for its run, which may hang forever
		}
		ctx, stop := context.WithCancel(ctx)
		w := &worker{state: state{probe: probe}, stop: stop}
		p.running[name] = w
		if !probe.Skip {
			go p.work(ctx, w)
		}
	}
	for name, w := range p.running {
		if !keep[name] {
			w.stop()
			delete(p.running, name)
		}
	}
	p.enqueue()
}

// work runs one probe in each period. The runner limits how long a run may take.
func (p *Publisher) work(ctx context.Context, w *worker) {
	runner := checks.NewRunner(w.probe.Check)
	jitter := checks.Jitter
	if w.probe.Fixed {
		jitter = 0
	}
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		began := time.Now()
		finding := w.probe.finding(runner.Do(ctx))
		if ctx.Err() != nil {
			return
		}
		p.Metrics.ran(w.probe.ConditionType, finding, time.Since(began))
		p.mu.Lock()
		w.early, w.problem = &finding, finding.Message
		w.possible = w.possible || finding.Reason != ReasonInvalid
		p.count(w)
		p.mu.Unlock()
		p.enqueue()
	}, w.probe.Period, jitter, false)
}

// count counts the last finding of a worker. Until the node's conditions are known, it waits: without a condition, one
// failure would be enough. Of several findings that wait, only the last one counts. The caller holds the lock.
func (p *Publisher) count(w *worker) {
	if w.early == nil || p.seen == nil && !p.Source.Known() {
		return
	}
	w.found(*w.early, find(p.conditions(), w.probe.ConditionType), time.Now(), p.bootTime())
	w.early = nil
}

// Impossible returns why a probe was not possible until now; empty: each was possible once.
func (p *Publisher) Impossible() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.running)) {
		if w := p.running[name]; !w.possible && !w.probe.Skip {
			return "the probe of " + name + ": " + cmp.Or(w.problem, "it runs for the first time")
		}
	}
	return ""
}

func (p *Publisher) enqueue() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run writes the conditions until ctx ends.
func (p *Publisher) Run(ctx context.Context) {
	backoff, refusals := nodewatch.NewBackoff(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		nodewatch.Sleep(ctx, batchDelay, nil)
		err := p.sync(ctx)
		p.report(ctx, err)
		if err == nil || ctx.Err() != nil {
			backoff, refusals = nodewatch.NewBackoff(), 0
			continue
		}
		delay := nodewatch.Delay(&backoff, err)
		if refusals++; !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			refusals = 0
		} else if refusals > patientRetries {
			delay *= slowness
		}
		nodewatch.Sleep(ctx, delay, nil)
		p.enqueue()
	}
}

// report logs a new failure, and its end.
func (p *Publisher) report(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if ctx.Err() != nil || text == p.lastErr {
		return
	}
	if err != nil {
		p.Log.Warn("Cannot write the node's conditions, retrying", "node", p.Node, "error", text)
	} else {
		p.Log.Info("Writing the node's conditions works again", "node", p.Node)
	}
	p.lastErr = text
}

// sync writes the conditions that are due in one patch, or nothing if none is due.
func (p *Publisher) sync(ctx context.Context) error {
	client := p.Source.Client()
	if client == nil {
		return errors.New("no connection to the API server")
	}
	if err := p.look(ctx, client); err != nil {
		return err
	}
	p.mu.Lock()
	write, remove := p.due()
	p.mu.Unlock()
	if len(write) == 0 && len(remove) == 0 {
		p.Metrics.skipped()
		return nil
	}
	if len(write)+len(remove) > MaxChanges { // the next patch has the others
		remove = remove[:min(len(remove), MaxChanges)]
		write = write[:min(len(write), MaxChanges-len(remove))]
		defer p.enqueue()
	}
	if err := p.write(ctx, client, write, remove); err != nil {
		p.Metrics.wrote("error")
		return err
	}
	p.Metrics.wrote("success")
	p.mu.Lock()
	for _, name := range remove {
		delete(p.written, name)
		delete(p.last, name)
	}
	for _, c := range write {
		p.last[string(c.Type)] = c.Status
		p.written[string(c.Type)] = c.LastHeartbeatTime.Time // with the monotonic clock
	}
	p.mu.Unlock()
	for _, c := range write {
		p.Log.Debug("Published", "condition", c.Type, "status", c.Status, "reason", c.Reason)
	}
	return nil
}

// due returns the conditions to write and to remove. The caller holds the lock.
func (p *Publisher) due() (write []corev1.NodeCondition, remove []string) {
	observed := p.conditions()
	want := map[string]desired{}
	for name, w := range p.running {
		p.count(w)
		if w.want != nil {
			want[name] = *w.want
		}
	}
	if p.sweep {
		remove = orphans(observed, func(name string) bool { return p.running[name] != nil })
	}
	p.noticeRivals(observed)
	return plan(observed, want, p.written, remove != nil, time.Now(), p.bootTime()), remove
}

// noticeRivals logs which conditions do not have the status that this agent has written. Two agents with one node name,
// of which only one runs on the node, would change the conditions back and forth. The caller holds the lock.
func (p *Publisher) noticeRivals(observed []corev1.NodeCondition) {
	for name, status := range p.last {
		c := find(observed, name)
		if c == nil || c.Status == status || p.rivals[name] {
			continue
		}
		p.rivals[name] = true
		p.Log.Warn("Another client writes this condition, too. Does another agent run with this node's name?",
			"node", p.Node, "condition", name, "written", status, "found", c.Status, "reason", c.Reason)
	}
}

// readBootTime returns when this machine booted, or zero if that is unknown.
func readBootTime() time.Time {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return time.Time{}
	}
	stat, err := proc.Stat()
	if err != nil || stat.BootTime == 0 {
		return time.Time{}
	}
	return time.Unix(int64(stat.BootTime), 0) //nolint:gosec // seconds since 1970
}

// bootTime returns when the node booted, or zero if that is in the future, because one of the clocks was wrong. It is
// read each time: a node without a battery gets its time from the network after the agent has started, and until then
// seems to have booted long before any condition was written.
func (p *Publisher) bootTime() time.Time {
	if booted := p.booted(); !booted.After(time.Now()) {
		return booted
	}
	return time.Time{}
}

// conditions returns the node's conditions from the watch or the last patch, the newer one. The caller holds the lock.
func (p *Publisher) conditions() []corev1.NodeCondition {
	watched := p.Source.Object()
	if !p.Source.Known() {
		watched = nil
	}
	if p.Source.Unavailable() != nil && p.seen != nil {
		watched = nil // the last known node may be outdated
	}
	switch {
	case watched == nil && p.seen == nil:
		return nil
	case watched == nil || nodewatch.Older(watched, p.seen):
		return p.seen.Status.Conditions
	}
	return watched.Status.Conditions
}

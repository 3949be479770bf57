// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/bench/measure"
	"github.com/nodegate/nodegate/test/bench/synthetic"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// heartbeatsPerSecond are those of all nodes, for up to 15,000, and steadyFor is for how long they come.
	heartbeatsPerSecond, steadyFor = 50, 20 * time.Second
	// reportEvery is how often a kubelet reports while nothing changes, in seconds: more nodes send more heartbeats.
	reportEvery = 300
	// changeEvery is how often the evidence of one node changes among them, so many times.
	changeEvery, changes = 100 * time.Millisecond, 1000
)

// lab is a synthetic server with nodes, and the operator that works on them.
type lab struct {
	*options
	server     *synthetic.Server
	dir        string
	kubeconfig string
	operator   string // the binary
	results    *measure.Run

	mu      sync.Mutex
	taints  []int // of ours, node by node
	want    int
	missing int
	from    []time.Time // when a node's evidence changed
	delays  []time.Duration
	last    time.Time
}

func newLab(ctx context.Context, o *options) (*lab, func(), error) {
	definition, err := crd.Load()
	if err != nil {
		return nil, nil, err
	}
	l := &lab{options: o, results: &measure.Run{}, server: synthetic.New(definition), taints: make([]int, o.nodes),
		from: make([]time.Time, o.nodes)}
	l.server.Patched = l.patched
	if l.dir, err = os.MkdirTemp("", "nodegate-lab-"); err != nil {
		return nil, nil, err
	}
	url, stop, err := l.server.Serve()
	if err != nil {
		return nil, nil, err
	}
	l.kubeconfig = filepath.Join(l.dir, "kubeconfig")
	if err := cluster.WriteKubeconfig(l.kubeconfig, &rest.Config{Host: url}); err != nil {
		return nil, nil, err
	}
	say("building the operator")
	if l.operator, err = cluster.BinaryIn(ctx, l.dir, "manager"); err != nil {
		return nil, nil, err
	}
	say("creating %d nodes", o.nodes)
	images := cluster.NewNode("", cluster.NodeOptions{}).Status.Images
	for i := range o.nodes {
		node := cluster.NewNode(nodeName(i), cluster.NodeOptions{Images: -1, Unmanaged: true,
			Labels: map[string]string{poolLabel: poolValue}})
		node.Status.Images = images
		node.Status.Conditions = append(node.Status.Conditions, conditions(o.rules, corev1.ConditionFalse, time.Now())...)
		l.server.Put("nodes", node)
	}
	return l, func() { stop(); _ = os.RemoveAll(l.dir) }, nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// patched sees each node that the operator has patched.
func (l *lab) patched(node *corev1.Node) {
	i, err := strconv.Atoi(strings.TrimPrefix(node.Name, "node-"))
	if err != nil || i >= len(l.taints) {
		return
	}
	ours := ourTaints(node)
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.taints[i]; before != ours {
		l.taints[i] = ours
		switch {
		case ours == l.want:
			l.missing--
			l.last = time.Now()
			l.delays = append(l.delays, l.last.Sub(l.from[i]))
		case before == l.want:
			l.missing++
		}
	}
}

// expect begins to count the nodes that have a number of taints.
func (l *lab) expect(taints int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want, l.missing, l.delays, l.last = taints, 0, nil, time.Now()
	for _, n := range l.taints {
		if n != taints {
			l.missing++
		}
	}
}

// wait waits until all nodes but some have the taints that are expected.
func (l *lab) wait(ctx context.Context, but int) error {
	return cluster.Poll(ctx, runLimit, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.missing > but {
			return fmt.Errorf("%d nodes do not have %d taints", l.missing, l.want)
		}
		return nil
	})
}

// turn changes all conditions of one node.
func (l *lab) turn(i int, status corev1.ConditionStatus) {
	now := time.Now()
	l.mu.Lock()
	l.from[i] = now
	l.mu.Unlock()
	l.server.Change(nodeName(i), func(node *corev1.Node) {
		kept := node.Status.Conditions[:len(node.Status.Conditions)-l.rules]
		node.Status.Conditions = append(append([]corev1.NodeCondition{}, kept...), conditions(l.rules, status, now)...)
	})
}

// beat renews the heartbeats of a node, kubelet's and the reporters'.
func (l *lab) beat(i int) {
	l.server.Change(nodeName(i), func(node *corev1.Node) {
		node.Status.Conditions = append([]corev1.NodeCondition{}, node.Status.Conditions...)
		for c := range node.Status.Conditions {
			node.Status.Conditions[c].LastHeartbeatTime = metav1.Now()
		}
	})
}

// process is an operator that runs. base is the URL of its metrics.
type process struct {
	*cluster.Component
	base  string
	ready func(context.Context) error
}

// run starts the operator, and waits until it is ready.
func (l *lab) run(ctx context.Context, replica int) (*process, error) {
	command, base, err := l.command(operatorName, l.operator, l.kubeconfig, replica > 0)
	if err != nil {
		return nil, err
	}
	p := &process{base: base, ready: command.Ready}
	command.Name, command.Ready = fmt.Sprintf("operator-%d", replica), nil // with many nodes, that takes long
	if p.Component, err = cluster.NewProcess(l.dir, command); err != nil {
		return nil, err
	}
	return p, l.start(ctx, p)
}

// start starts a process again.
func (l *lab) start(ctx context.Context, p *process) error {
	err := p.Start(ctx)
	if err != nil {
		return err
	}
	err = cluster.Poll(ctx, runLimit, func() error {
		if p.PID() == 0 {
			return nil
		}
		return p.ready(ctx)
	})
	if p.PID() == 0 {
		return fmt.Errorf("%s has ended: %s", p.LogFile(), p.LogTail(20))
	}
	return err
}

// reconciles is how many nodes the operator has looked at.
func (p *process) reconciles(ctx context.Context) (int, error) {
	_, text, err := cluster.Get(ctx, p.base+"/metrics")
	sum := 0.0
	for line := range strings.Lines(text) { // one for each result
		if strings.HasPrefix(line, `controller_runtime_reconcile_total{controller="node",`) {
			n, _ := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:len(line)-1], 64)
			sum += n
		}
	}
	return int(sum), err
}

// measured measures a part of the work of a process, and adds a line to the results.
func (l *lab) measured(p *process, phase string, part func() error) error {
	counted := l.server.Counts()
	if err := measure.ResetPeak(p.PID()); err != nil {
		return err
	}
	before, err := measure.CPU(p.PID())
	if err != nil {
		return err
	}
	began := time.Now()
	if err := part(); err != nil {
		return fmt.Errorf("%s: %w", phase, err)
	}
	after, err := measure.CPU(p.PID())
	peak, errPeak := measure.Peak(p.PID())
	counts := l.server.Counts().Since(counted)
	l.mu.Lock()
	defer l.mu.Unlock()
	line := measure.Line{Phase: phase, Wall: max(0, l.last.Sub(began).Seconds()),
		CPU: (after - before).Seconds(), PeakMiB: float64(peak) / (1 << 20), Patches: float64(counts.NodePatches),
		Refused: float64(counts.Refused), Other: float64(counts.RuleWrites),
		Events: float64(counts.Events), StatusWrites: float64(counts.StatusWrites)}
	if len(l.delays) > 0 {
		line.P50 = measure.Percentile(l.delays, 50).Seconds()
		line.P99 = measure.Percentile(l.delays, 99).Seconds()
	}
	l.results.Lines = append(l.results.Lines, line)
	say("  %-40s %.2f s, p50 %.0f ms, p99 %.0f ms, %.2f s CPU, %.0f MiB, %+v", phase, line.Wall, line.P50*1000,
		line.P99*1000, line.CPU, line.PeakMiB, counts)
	return errors.Join(err, errPeak)
}

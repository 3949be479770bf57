// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
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
	*measure.Run
	*observer
	server     *synthetic.Server
	dir        string
	kubeconfig string
	operator   string // the binary
}

func newLab(ctx context.Context, run *measure.Run) (*lab, func(), error) {
	definition, err := crd.Load()
	if err != nil {
		return nil, nil, err
	}
	l := &lab{Run: run, observer: newObserver(run.Nodes), server: synthetic.New(definition)}
	l.server.Patched = l.see
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
	log.Printf("building the operator")
	if l.operator, err = cluster.BinaryIn(ctx, l.dir, "manager"); err != nil {
		return nil, nil, err
	}
	log.Printf("creating %d nodes", run.Nodes)
	images := cluster.NewNode("", nodeOptions).Status.Images
	options := nodeOptions
	options.Images = -1 // they share them
	for i := range run.Nodes {
		node := cluster.NewNode(nodeName(i), options)
		node.Status.Images = images
		node.Status.Conditions = append(node.Status.Conditions, conditions(run.Rules, corev1.ConditionFalse, time.Now())...)
		l.server.Put("nodes", node)
	}
	return l, func() { stop(); _ = os.RemoveAll(l.dir) }, nil
}

// turn changes all conditions of one node.
func (l *lab) turn(i int, status corev1.ConditionStatus) {
	now := time.Now()
	l.counts(i, now)
	l.server.Change(nodeName(i), func(node *corev1.Node) {
		kept := node.Status.Conditions[:len(node.Status.Conditions)-l.Rules]
		node.Status.Conditions = append(append([]corev1.NodeCondition{}, kept...), conditions(l.Rules, status, now)...)
	})
}

// counts makes the time until the taints of a node change count from a moment.
func (l *lab) counts(i int, from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from[i] = from
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

// run starts the operator, and waits until it is ready.
func (l *lab) run(ctx context.Context, replica int) (*contestant, error) {
	c, err := newContestant(l.Run, operatorName, l.operator, l.kubeconfig, replica > 0)
	if err != nil {
		return nil, err
	}
	c.process.Name = fmt.Sprintf("operator-%d", replica)
	if c.Component, err = cluster.NewProcess(l.dir, c.process); err != nil {
		return nil, err
	}
	return c, c.Start(ctx)
}

// looked waits until the operator has looked at each node.
func (l *lab) looked(ctx context.Context, p *contestant) error {
	return cluster.Poll(ctx, runLimit, func() error {
		_, metrics, err := cluster.Get(ctx, p.base+"/metrics")
		looks := 0.0
		for _, result := range []string{"success", "requeue_after", "requeue", "error"} {
			n, errMetric := cluster.Metric(metrics,
				fmt.Sprintf(`controller_runtime_reconcile_total{controller="node",result=%q}`, result))
			looks, err = looks+n, errors.Join(err, errMetric)
		}
		if err == nil && int(looks) < l.Nodes {
			err = fmt.Errorf("%v of %d nodes are looked at", looks, l.Nodes)
		}
		return err
	})
}

// measured measures a part of the work of a process, and adds a line to the results. The CPU of processes that work
// beside it does not count as that of others.
func (l *lab) measured(ctx context.Context, p *contestant, phase string, part func(context.Context) error,
	beside ...int,
) error {
	counted := l.server.Counts()
	meter, err := measure.NewMeter(p.PID(), beside...)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := part(ctx); err != nil {
		return fmt.Errorf("%s: %w", phase, err)
	}
	usage, err := meter.Usage()
	peak, errPeak := measure.Peak(p.PID())
	counts := l.server.Counts().Since(counted)
	line := measure.Line{Phase: phase, CPU: usage.Contestant.Seconds(), OthersCPU: usage.Others.Seconds(),
		PeakMiB: float64(peak) / (1 << 20), Patches: float64(counts.NodePatches), Refused: float64(counts.Refused),
		Other: float64(counts.RuleWrites), Events: float64(counts.Events), StatusWrites: float64(counts.StatusWrites)}
	l.mu.Lock()
	defer l.mu.Unlock()
	var delays []float64
	for _, r := range l.reached {
		delays = append(delays, r.at.Sub(r.from).Seconds())
		line.Wall = max(0, r.at.Sub(began).Seconds())
	}
	line.P50, line.P99 = measure.Percentile(delays, 50), measure.Percentile(delays, 99)
	l.Lines = append(l.Lines, line)
	log.Printf("  %-40s %.2f s, p50 %.0f ms, p99 %.0f ms, %.2f s CPU, %.0f MiB, %+v", phase, line.Wall, line.P50*1000,
		line.P99*1000, line.CPU, line.PeakMiB, counts)
	return errors.Join(err, errPeak)
}

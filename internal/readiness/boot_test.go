// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// The operator was away while the node rebooted: it booted at -65 s, its pod started at -60 s, and the operator saw the
// boot at 0 s with a Ready heartbeat of -5 s, which is all that it knows of the time of the boot.
func TestARebootThatTheOperatorDidNotSeeHoldsNoNodeForEver(t *testing.T) {
	started := initPod("a", at(-60))
	rule := requiring(t, v1alpha1.Requirement{Name: "init", Pods: &usual})
	expression := requiring(t, named)

	for name, c := range map[string]struct {
		rule      *ruleset.Rule
		now       int
		heartbeat int
		unready   bool // the node
		former    int  // 0: none is known
		live      []*corev1.Pod
		ready     bool
		recheck   int
	}{
		"not before the boot is confirmed":          {now: 119, heartbeat: 115, live: []*corev1.Pod{started}, recheck: 120},
		"once it is confirmed":                      {now: 120, heartbeat: 115, live: []*corev1.Pod{started}, ready: true},
		"not while kubelet has reported too little": {now: 120, heartbeat: 114, live: []*corev1.Pod{started}, recheck: 600},
		"after ten minutes, with any clocks":        {now: 600, heartbeat: -5, live: []*corev1.Pod{started}, ready: true},
		"not while the node is unready":             {now: 900, heartbeat: 895, unready: true, live: []*corev1.Pod{started}},
		"not by a cache that is behind":             {now: 120, heartbeat: 115},
		"a pod of the former boot waits ten minutes": {now: 120, heartbeat: 115, former: -30, live: []*corev1.Pod{started},
			recheck: 600},
		"and no longer": {now: 600, heartbeat: 595, former: -30, live: []*corev1.Pod{started},
			ready: true},
		"what has no time waits, too":            {rule: expression, now: 119, heartbeat: 115, recheck: 120},
		"what has no time counts once confirmed": {rule: expression, now: 120, heartbeat: 115, ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.rule == nil {
				c.rule = rule
			}
			status := corev1.ConditionTrue
			if c.unready {
				status = corev1.ConditionFalse
			}
			n := build.MakeNode("n").Created(at(-86400)).Condition("Ready", status, at(-50)).Heartbeat("Ready",
				at(c.heartbeat)).Obj()
			facts := &evidence.Facts{Node: n, Boot: evidence.Boot{Bound: at(-5), SeenAt: at(0)}, Gathered: &evidence.Gathered{},
				Live: func(string, labels.Selector) []*corev1.Pod { return c.live }}
			for _, p := range rule.Pods() {
				facts.Gathered.Pods = map[*evidence.Pods][]*corev1.Pod{p: {started}}
			}
			if c.former != 0 {
				facts.Boot.Former = at(c.former)
			}
			v := Evaluate(c.rule, facts, Observed{}, at(c.now))
			if v.Ready != c.ready {
				t.Errorf("ready is %t: %s", v.Ready, v.Results[0].Message())
			}
			if c.recheck != 0 && (!v.RecheckAt.Equal(at(c.recheck)) || !v.HeartbeatCounts) {
				t.Errorf("rechecks at %s, a heartbeat decides: %t", v.RecheckAt, v.HeartbeatCounts)
			}
		})
	}
}

// TestEvidenceWithoutATimeCountsOnceTheBootIsConfirmed, since it may be from before the boot.
func TestEvidenceWithoutATimeCountsOnceTheBootIsConfirmed(t *testing.T) {
	csiNode := &storagev1.CSINode{}
	csiNode.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "csi.example.com"}}
	for name, requirement := range map[string]v1alpha1.Requirement{
		"CSI driver": {CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "csi.example.com"}},
		"devices":    {Devices: &v1alpha1.DevicesRequirement{Driver: "gpu.example.com", Min: 1}},
		"no taint":   {NoTaint: &v1alpha1.NoTaintRequirement{Key: "example.com/x", Effect: "NoSchedule"}},
	} {
		requirement.Name = "it"
		rule := requiring(t, requirement)
		for now, want := range map[int]bool{0: false, 119: false, 120: true} {
			n := build.MakeNode("n").Created(at(-86400)).Condition("Ready", "True", at(-50)).Heartbeat("Ready", at(now)).Obj()
			facts := &evidence.Facts{Node: n, Boot: evidence.Boot{Bound: at(-5), SeenAt: at(0)},
				Gathered: &evidence.Gathered{CSINode: csiNode, Devices: map[string]int64{"gpu.example.com": 1}}}
			if v := Evaluate(rule, facts, Observed{}, at(now)); v.Ready != want {
				t.Errorf("%s, %d s after the boot: ready is %t", name, now, v.Ready)
			}
		}
	}
}

func TestAClockThatIsFarAheadDoesNotProveThatAReportIsFromAfterTheBoot(t *testing.T) {
	rule := compile(rule().Condition("A"))
	for now, want := range map[int]bool{0: false, 119: false, 120: true} {
		n := build.MakeNode("n").Created(at(-86400)).Condition("A", "True", at(3500)).Condition("Ready", "True", at(3500)).
			Heartbeat("Ready", at(3600+now)).Obj()
		facts := &evidence.Facts{Node: n, Boot: evidence.Boot{Bound: at(0), SeenAt: at(0)}, Gathered: &evidence.Gathered{}}
		v := Evaluate(rule, facts, Observed{}, at(now))
		if v.Ready != want || !want && !v.HeartbeatCounts {
			t.Errorf("%d s after the boot: ready is %t, a heartbeat decides: %t", now, v.Ready, v.HeartbeatCounts)
		}
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	waiting := initPod("a", at(-60), unready, func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{}
	})
	expression := requiring(t, named)

	for name, c := range map[string]struct {
		rule      *ruleset.Rule
		now       int
		heartbeat int
		unready   bool // the node
		former    int  // 0: none is known
		live      []*corev1.Pod
		unlisted  bool // there is no live list
		ready     bool
		recheck   int
		says      string
	}{
		"not before the boot is confirmed":          {now: 119, heartbeat: 115, live: []*corev1.Pod{started}, recheck: 120},
		"once it is confirmed":                      {now: 120, heartbeat: 115, live: []*corev1.Pod{started}, ready: true},
		"not while kubelet has reported too little": {now: 120, heartbeat: 114, live: []*corev1.Pod{started}, recheck: 600},
		"after ten minutes, with any clocks":        {now: 600, heartbeat: -5, live: []*corev1.Pod{started}, ready: true},
		"not while the node is unready":             {now: 900, heartbeat: 895, unready: true, live: []*corev1.Pod{started}},
		"not by a cache that is behind":             {now: 120, heartbeat: 115},
		"by the cache, if there is nothing else":    {now: 120, heartbeat: 115, unlisted: true, ready: true},
		"not without its pod, after ten minutes":    {now: 600, heartbeat: 595, says: "0 of 1 pods ready"},
		"a pod that started after the record": {now: 120, heartbeat: 115, former: -90, live: []*corev1.Pod{started},
			ready: true},
		"a container that does not run is not from before": {now: 120, heartbeat: 115, former: -30,
			live: []*corev1.Pod{waiting}, recheck: 600, says: "pod a has a container that is not ready: init"},
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
				Live: func(string, labels.Selector) ([]*corev1.Pod, bool) {
					if c.now < 120 {
						t.Error("asks the API server before the boot is confirmed")
					}
					return c.live, true
				}}
			if c.unlisted {
				facts.Live = nil
			}
			for _, p := range rule.Pods() {
				facts.Gathered.Pods = map[*evidence.Pods][]*corev1.Pod{p: {started}}
			}
			if c.former != 0 {
				facts.Boot.Former = at(c.former)
			}
			v := Evaluate(c.rule, facts, Observed{}, at(c.now))
			if got := v.Results[0].Message(); v.Ready != c.ready || !strings.Contains(got, c.says) {
				t.Errorf("ready is %t: %s", v.Ready, got)
			}
			if c.recheck == 0 && c.now >= 600 && !c.unready && v.HeartbeatCounts {
				t.Error("waits for a heartbeat, which changes nothing any more")
			}
			if c.recheck != 0 && (!v.RecheckAt.Equal(at(c.recheck)) || !v.HeartbeatCounts) {
				t.Errorf("rechecks at %s, a heartbeat decides: %t", v.RecheckAt, v.HeartbeatCounts)
			}
		})
	}
}

func TestPodsOfANodeThatIsBooting(t *testing.T) {
	runs := func(name string, ready int, started ...int) *corev1.Pod {
		return initPod(name, at(ready), func(p *corev1.Pod) {
			of := p.Status.ContainerStatuses[0]
			p.Status.ContainerStatuses = nil
			for _, s := range started {
				of.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at(s))}
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, of)
			}
		})
	}
	slow, owned := *usual.DeepCopy(), *usual.DeepCopy()
	slow.MinReadySeconds, owned.OwnerDaemonSet = new(int32(300)), "another"
	two := *usual.DeepCopy()
	two.MinReady = new(int32(2))
	failing := func(p *corev1.Pod) *corev1.Pod {
		p.Status.Conditions[0].Status = corev1.ConditionFalse
		return p
	}
	ending := func(p *corev1.Pod) *corev1.Pod {
		p.DeletionTimestamp = &metav1.Time{Time: at(0)}
		return p
	}
	for name, c := range map[string]struct {
		require *v1alpha1.PodsRequirement
		pods    []*corev1.Pod
		ready   bool
		refuted bool
		says    string
	}{
		"all containers have started since": {&usual, []*corev1.Pod{runs("a", 10, 9, 8)}, true, false, "1 of 1 pods"},
		"the second container has not": {&usual, []*corev1.Pod{runs("a", 10, 9, -60)}, false, false,
			"has not started"},
		"the first container has not": {&usual, []*corev1.Pod{runs("a", 10, -60, 9)}, false, false, "has not started"},
		"one that has, beside one that has not": {&slow, []*corev1.Pod{runs("a", 10, 9), runs("b", -900, -900)}, false,
			false, "pod a has not been ready for long enough, pod b has not started since the node booted"},
		"one that has not, and is not ready": {&usual, []*corev1.Pod{failing(runs("a", -900, -900))}, false, false,
			"has not started"},
		"one that has, and is not ready": {&usual, []*corev1.Pod{failing(runs("a", 10, 9))}, false, true, "is not ready"},
		"fewer than needed, with one that has not": {&two, []*corev1.Pod{runs("a", -900, -900)}, false, true,
			"has not started"},
		"as many as needed, with one that has not": {&two, []*corev1.Pod{runs("a", -900, -900), runs("b", 10, 9)}, false,
			false, "1 of 2 pods ready"},
		"one that has not, and terminates": {&usual, []*corev1.Pod{ending(runs("a", -900, -900))}, false, true,
			"has not started"},
		"of another owner": {&owned, []*corev1.Pod{runs("a", -900, -900)}, false, false,
			"pod a is not of DaemonSet another"},
	} {
		rule := requiring(t, v1alpha1.Requirement{Name: "init", Pods: c.require})
		facts := &evidence.Facts{Node: node().Condition("Ready", "True", at(0)).Obj(),
			Boot:     evidence.Boot{Bound: at(0), SeenAt: at(0)},
			Gathered: &evidence.Gathered{Pods: map[*evidence.Pods][]*corev1.Pod{rule.Pods()[0]: c.pods}}}
		v := Evaluate(rule, facts, Observed{}, at(20))
		if got := v.Results[0].Message(); v.Ready != c.ready || !strings.Contains(got, c.says) {
			t.Errorf("%s: ready is %t: %s", name, v.Ready, got)
		}
		if want := at(120); !c.ready && !v.RecheckAt.Equal(want) {
			t.Errorf("%s: rechecks at %s, want %s", name, v.RecheckAt, want)
		}
		if v.Refuted(false) != c.refuted {
			t.Errorf("%s: refuted is %t", name, !c.refuted)
		}
		if v.NeverAppeared != (c.require == &owned) {
			t.Errorf("%s: never appeared is %t", name, v.NeverAppeared)
		}
	}
}

// TestAPodOfAClockThatIsAheadProvesNothing until its start and kubelet's heartbeat are in the past: it may have started
// before the boot, of which the operator's clock has told the time.
func TestAPodOfAClockThatIsAheadProvesNothing(t *testing.T) {
	agent := build.MakeDaemonSet("kube-system", "agent").Tolerate("").Created(at(-86400))
	set := daemonSetRule(v1alpha1.DaemonSetsRequirement{}, agent).Rule("u")
	pods := requiring(t, v1alpha1.Requirement{Name: "init", Pods: &usual})
	for name, c := range map[string]struct {
		start, heartbeat, now int
		recheck               int // 0: it is ready
	}{
		"it is not ahead":                      {start: 10, now: 20},
		"the pod has started in the future":    {start: 25, now: 20, recheck: 25},
		"kubelet reports from the future":      {start: 10, heartbeat: 30, now: 20, recheck: 30},
		"which has come":                       {start: 10, heartbeat: 30, now: 30},
		"kubelet reports from long after that": {start: 10, heartbeat: 400, now: 20, recheck: 120},
		"the start was before the boot":        {start: -1, now: 20, recheck: 120},
	} {
		daemon, ok := evidence.DaemonPodOf(agent.Pod("n", at(c.start)).Obj())
		if !ok {
			t.Fatal("is not kept")
		}
		facts := &evidence.Facts{Node: node().Condition("Ready", "True", at(-50)).Heartbeat("Ready", at(c.heartbeat)).Obj(),
			Manager: func(*corev1.Taint) string { return "" }, Boot: evidence.Boot{Bound: at(0), SeenAt: at(0)},
			Gathered: &evidence.Gathered{DaemonPods: map[string][]evidence.DaemonPod{"kube-system": {daemon}},
				Pods: map[*evidence.Pods][]*corev1.Pod{pods.Pods()[0]: {initPod("a", at(c.start))}}}}
		for kind, rule := range map[string]*ruleset.Rule{"pods": pods, "DaemonSets": set} {
			v := Evaluate(rule, facts, Observed{}, at(c.now))
			if v.Ready != (c.recheck == 0) || !v.Ready && !v.RecheckAt.Equal(at(c.recheck)) {
				t.Errorf("%s of %s: ready is %t, rechecks at %s", name, kind, v.Ready, v.RecheckAt)
			}
		}
	}
}

// TestDaemonSetsOfAConfirmedBootAreReadLive: the cache may still show the pods from before the boot.
func TestDaemonSetsOfAConfirmedBootAreReadLive(t *testing.T) {
	agent := build.MakeDaemonSet("kube-system", "agent").Tolerate("").Created(at(-86400))
	set := daemonSetRule(v1alpha1.DaemonSetsRequirement{}, agent)
	cached, ok := evidence.DaemonPodOf(agent.Pod("n", at(-3600)).Obj())
	if !ok {
		t.Fatal("is not kept")
	}
	fresh, ended := agent.Pod("n", at(-4)).Obj(), agent.Pod("n", at(-4)).Phase(corev1.PodFailed).Obj()
	for name, c := range map[string]struct {
		now      int
		live     []*corev1.Pod
		unlisted bool
		ready    bool
	}{
		"one second early":        {now: 119, live: []*corev1.Pod{fresh}},
		"a pod of the boot":       {now: 120, live: []*corev1.Pod{ended, fresh}, ready: true},
		"a pod that has ended":    {now: 120, live: []*corev1.Pod{ended}},
		"no pod":                  {now: 120},
		"without a list: cached":  {now: 120, unlisted: true, ready: true},
		"after ten minutes, none": {now: 600},
	} {
		facts := &evidence.Facts{Manager: set.ManagerName, Boot: evidence.Boot{Bound: at(-5), SeenAt: at(0)},
			Node:     node().Condition("Ready", "True", at(-50)).Heartbeat("Ready", at(c.now)).Obj(),
			Gathered: &evidence.Gathered{DaemonPods: map[string][]evidence.DaemonPod{"kube-system": {cached}}},
			Live: func(namespace string, selector labels.Selector) ([]*corev1.Pod, bool) {
				if c.now < 120 || namespace != "kube-system" || !selector.Empty() {
					t.Errorf("%s: asks for the pods %s of namespace %s", name, selector, namespace)
				}
				return c.live, true
			}}
		if c.unlisted {
			facts.Live = nil
		}
		if v := Evaluate(set.Rule("u"), facts, Observed{}, at(c.now)); v.Ready != c.ready {
			t.Errorf("%s: ready is %t: %s", name, v.Ready, v.Results[0].Message())
		}
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
			} else if got := v.Results[0].Message(); !want && got != "requirement it may be from before the node booted" {
				t.Errorf("%s, %d s after the boot: %s", name, now, got)
			} else if v.Refuted(false) {
				t.Errorf("%s, %d s after the boot: is refuted", name, now)
			}
			facts.Gathered = &evidence.Gathered{}
			facts.Node.Spec.Taints = []corev1.Taint{{Key: "example.com/x", Effect: corev1.TaintEffectNoSchedule}}
			if v := Evaluate(rule, facts, Observed{}, at(now)); v.Ready || v.HeartbeatCounts ||
				strings.Contains(v.Results[0].Message(), "before the node booted") {
				t.Errorf("%s, which is not there, %d s after the boot: %s", name, now, v.Results[0].Message())
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
		if v.Ready != want || !want && (!v.HeartbeatCounts || !v.RecheckAt.Equal(at(120))) {
			t.Errorf("%d s after the boot: ready is %t, a heartbeat decides: %t, rechecks at %s", now, v.Ready,
				v.HeartbeatCounts, v.RecheckAt)
		}
	}
}

// TestAReportFromTheFutureThatWasSeenBeforeTheBootCountsSinceTheBoot: its clock does not tell more.
func TestAReportFromTheFutureThatWasSeenBeforeTheBootCountsSinceTheBoot(t *testing.T) {
	rule, arrivals := compile(rule().FreshCondition("A", 150)), &evidence.Arrivals{}
	for _, c := range []struct {
		now   int
		ready bool
	}{{-10, true}, {0, false}, {119, false}, {120, true}, {149, true}, {150, false}} {
		n := build.MakeNode("n").Created(at(-86400)).Condition("A", "True", at(3500)).Heartbeat("A", at(3600)).
			Condition("Ready", "True", at(-50)).Heartbeat("Ready", at(c.now))
		facts := &evidence.Facts{Node: n.Obj(), Arrivals: arrivals, Gathered: &evidence.Gathered{}}
		if c.now >= 0 {
			facts.Boot = evidence.Boot{Bound: at(0), SeenAt: at(0)}
		}
		if v := Evaluate(rule, facts, Observed{}, at(c.now)); v.Ready != c.ready {
			t.Errorf("%d s after the boot: ready is %t: %s", c.now, v.Ready, v.Results[0].Message())
		}
	}
}

// TestAPublishedConditionCountsOnceTheBootIsConfirmed: the operator writes it only when it changes.
func TestAPublishedConditionCountsOnceTheBootIsConfirmed(t *testing.T) {
	const ours = "NodegateRuleReady"
	type verdicts map[int]bool // by seconds after the boot
	for name, c := range map[string]struct {
		reason       string
		is, required corev1.ConditionStatus
		written      int
		ready        verdicts
		waits        bool
	}{
		"from before the boot":        {ours, "True", "True", -3600, verdicts{0: false, 119: false, 120: true}, true},
		"from before it, and False":   {ours, "False", "True", -3600, verdicts{0: false, 119: false, 120: false}, true},
		"from before it, and refused": {ours, "True", "Unknown", -3600, verdicts{0: true, 119: true, 120: false}, true},
		"written since":               {ours, "True", "True", 10, verdicts{10: true, 120: true}, false},
		"of another reporter": {"AgentReady", "True", "True", -3600, verdicts{0: false, 120: false, 900: false},
			false},
	} {
		rule := compile(rule().Require(v1alpha1.ConditionRequirement{Type: "A",
			RequiredStatus: v1alpha1.ConditionStatus(c.required)}))
		for now, want := range c.ready {
			n := build.MakeNode("n").Created(at(-86400)).Condition("Ready", "True", at(-50)).Heartbeat("Ready", at(now)).
				Condition("A", c.is, at(c.written)).Reason("A", c.reason, "").Obj()
			facts := &evidence.Facts{Node: n, Boot: evidence.Boot{Bound: at(-5), SeenAt: at(0)}}
			v := Evaluate(rule, facts, Observed{}, at(now))
			if got := v.Results[0].Message(); v.Ready != want || v.Refuted(false) != (c.waits && now >= 120 && !want) {
				t.Errorf("%s, %d s after the boot: ready is %t, refuted %t: %s", name, now, v.Ready, v.Refuted(false), got)
			}
			if c.waits && now < 120 && (!v.RecheckAt.Equal(at(120)) || !v.HeartbeatCounts) {
				t.Errorf("%s, %d s after the boot: rechecks at %s, a heartbeat decides: %t", name, now, v.RecheckAt,
					v.HeartbeatCounts)
			}
			if c.waits && now >= 120 && !v.Since.Equal(at(now)) { // the windows begin
				t.Errorf("%s, %d s after the boot: since %s", name, now, v.Since)
			}
		}
	}
}

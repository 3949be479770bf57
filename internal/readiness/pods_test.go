// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// usual is a requirement of initPods.
var usual = v1alpha1.PodsRequirement{Namespace: "kube-system",
	Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"startup.k8s.io/component": "init"}}}

// confirmAfter is for how long a boot is not confirmed at least.
const confirmAfter = 2 * time.Minute

// initPod is a pod of DaemonSet startup-init that is ready since the given time, with a readiness probe.
func initPod(name string, ready time.Time, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{}
	p.Name, p.Namespace = name, "kube-system"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "startup-init",
		Controller: new(true)}}
	p.Spec.NodeName = "n"
	p.Spec.Containers = []corev1.Container{{Name: "init", ReadinessProbe: &corev1.Probe{}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "init", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(ready)}}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(ready)}}
	for _, f := range edit {
		f(p)
	}
	return p
}

// requiring compiles a rule of one requirement.
func requiring(t *testing.T, q v1alpha1.Requirement) *ruleset.Rule {
	t.Helper()
	compiled := compile(rule().Taint("example.com/t", "v", corev1.TaintEffectNoSchedule).Evidence(q))
	if len(compiled.Problems) > 0 {
		t.Fatal(compiled.Problems)
	}
	return compiled
}

func unprobed(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = nil }

func unready(p *corev1.Pod) {
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	p.Status.ContainerStatuses[0].Ready = false
}

func TestPods(t *testing.T) {
	with := func(f func(*v1alpha1.PodsRequirement)) v1alpha1.PodsRequirement {
		p := *usual.DeepCopy()
		f(&p)
		return p
	}
	annotated := with(func(p *v1alpha1.PodsRequirement) {
		p.ReadyWhen = v1alpha1.PodReadyPolicyPodReadyOrAnnotation
		p.ReadyAnnotation = &v1alpha1.AnnotationMatch{Key: "startup.k8s.io/ready", Value: "true"}
	})
	say := func(p *corev1.Pod) { p.Annotations = map[string]string{"startup.k8s.io/ready": "true"} }
	before := start.Add(-time.Minute)

	for name, tc := range map[string]struct {
		require   v1alpha1.PodsRequirement
		pods      []*corev1.Pod
		notBefore time.Time
		ready     bool
		since     time.Time
		recheck   time.Time
		says      string
		missing   bool // there is no such pod
	}{
		"a ready pod": {require: usual, pods: []*corev1.Pod{initPod("a", before)}, ready: true, since: before,
			says: "1 of 1 pods"},
		"a pod that has become ready by a clock that is ahead": {require: usual, ready: true, since: before,
			pods: []*corev1.Pod{initPod("a", start.Add(time.Hour), func(p *corev1.Pod) {
				p.CreationTimestamp = metav1.NewTime(before)
			})}},
		"and by one that is a little ahead": {require: usual, ready: true, since: before,
			pods: []*corev1.Pod{initPod("a", start.Add(time.Second), func(p *corev1.Pod) {
				p.CreationTimestamp = metav1.NewTime(before)
			})}},
		"a clock that is a little ahead does not shorten the wait, so that the wait ends once": {require: usual,
			recheck: start.Add(11 * time.Second),
			pods: []*corev1.Pod{initPod("a", start.Add(time.Second), unprobed, func(p *corev1.Pod) {
				p.CreationTimestamp = metav1.NewTime(before)
			})}},
		"and one that has been created for too short a time": {require: usual, recheck: start.Add(time.Second),
			pods: []*corev1.Pod{initPod("a", start.Add(time.Hour), unprobed, func(p *corev1.Pod) {
				p.CreationTimestamp = metav1.NewTime(start.Add(-9 * time.Second))
			})}},
		"a start in the future proves no boot": {require: usual, notBefore: start.Add(-time.Second),
			recheck: start.Add(confirmAfter - time.Second), says: "has not started",
			pods: []*corev1.Pod{initPod("a", start.Add(time.Hour))}},
		"a pod that is not ready": {require: usual, pods: []*corev1.Pod{initPod("a", before, unready)},
			says: "pod a has a container that is not ready: init"},
		"a terminating pod does not count": {require: usual, says: "pod a is terminating",
			pods: []*corev1.Pod{initPod("a", before, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} })}},
		"a pod of another owner does not open the gate": {
			require: with(func(p *v1alpha1.PodsRequirement) { p.OwnerDaemonSet = "other" }),
			pods:    []*corev1.Pod{initPod("a", before)},
			says:    "pod a is not of DaemonSet other", missing: true},
		"a pod of a DaemonSet of another API": {
			require: with(func(p *v1alpha1.PodsRequirement) { p.OwnerDaemonSet = "startup-init" }),
			pods: []*corev1.Pod{initPod("a", before, func(p *corev1.Pod) {
				p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1"
			})}, says: "pod a is not of DaemonSet startup-init", missing: true},
		"its own pod is not ready, beside one of another owner": {
			require: with(func(p *v1alpha1.PodsRequirement) { p.OwnerDaemonSet = "startup-init" }),
			pods: []*corev1.Pod{initPod("a", before, unready),
				initPod("b", before, func(p *corev1.Pod) { p.OwnerReferences = nil })},
			says: "pod a has a container that is not ready: init, pod b is not of DaemonSet startup-init"},
		"no pod": {require: usual, says: "0 of 1 pods ready (namespace kube-system, selector " +
			"startup.k8s.io/component=init)", missing: true},
		"a ready pod, and one more": {require: usual, ready: true,
			pods: []*corev1.Pod{initPod("a", before), initPod("b", before, unready)}},
		"a pod without any condition": {require: usual, says: "pod a is not ready",
			pods: []*corev1.Pod{initPod("a", before, func(p *corev1.Pod) { p.Status.Conditions = nil })}},
		"a pod that its readiness gate holds": {require: usual, says: "pod a is not ready",
			pods: []*corev1.Pod{initPod("a", before, func(p *corev1.Pod) {
				p.Status.Conditions[0].Status = corev1.ConditionFalse
			})}},
		"a pod that is Ready, and its container is not": {require: usual, says: "has a container that is not ready: init",
			pods: []*corev1.Pod{initPod("a", before, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = false })}},
		"a container that does not run": {require: usual, says: "has a container that is not ready: init",
			pods: []*corev1.Pod{initPod("a", before, unready, func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{}
			})}},
		"a pod of the previous boot still looks ready": {require: usual, pods: []*corev1.Pod{initPod("a", before)},
			notBefore: start.Add(-time.Second), recheck: start.Add(confirmAfter - time.Second),
			says: "pod a has not started since the node booted"},
		"a container without a probe is not ready at once": {require: usual,
			pods: []*corev1.Pod{initPod("a", start.Add(-9*time.Second), unprobed)}, recheck: start.Add(time.Second),
			says: "pod a has not been ready for long enough"},
		"but after ten seconds": {require: usual, pods: []*corev1.Pod{initPod("a", start.Add(-10*time.Second), unprobed)},
			ready: true, since: start},
		"0 seconds are not the default": {
			require: with(func(p *v1alpha1.PodsRequirement) { p.MinReadySeconds = new(int32(0)) }),
			pods:    []*corev1.Pod{initPod("a", start, unprobed)}, ready: true, since: start},
		"minReadySeconds, a second before": {
			require: with(func(p *v1alpha1.PodsRequirement) { p.MinReadySeconds = new(int32(30)) }),
			pods:    []*corev1.Pod{initPod("a", start.Add(-29*time.Second))}, recheck: start.Add(time.Second)},
		"two are there, since the second was": {
			require: with(func(p *v1alpha1.PodsRequirement) { p.MinReady = new(int32(2)) }),
			pods:    []*corev1.Pod{initPod("a", before.Add(time.Second)), initPod("b", before)}, ready: true,
			since: before.Add(time.Second)},
		"two are coming: the first of them decides": {require: usual, recheck: start.Add(time.Second),
			pods: []*corev1.Pod{initPod("a", start, unprobed), initPod("b", start.Add(-9*time.Second), unprobed)}},
		"the annotation is a shortcut": {require: annotated,
			pods: []*corev1.Pod{initPod("a", before, unready, say)}, ready: true},
		"and without it the pod's own readiness": {require: annotated, pods: []*corev1.Pod{initPod("a", before)}, ready: true,
			since: before},
		"only the annotation": {require: with(func(p *v1alpha1.PodsRequirement) {
			p.ReadyWhen, p.ReadyAnnotation = v1alpha1.PodReadyPolicyAnnotation, annotated.ReadyAnnotation
		}), pods: []*corev1.Pod{initPod("a", before)}, says: "pod a does not have annotation startup.k8s.io/ready=true"},
		"the annotation with another value": {require: annotated, says: "pod a has a container that is not ready",
			pods: []*corev1.Pod{initPod("a", before, unready, say, func(p *corev1.Pod) {
				p.Annotations["startup.k8s.io/ready"] = "false"
			})}},
		"an annotation that must be empty, and is not there": {require: with(func(p *v1alpha1.PodsRequirement) {
			p.ReadyWhen = v1alpha1.PodReadyPolicyAnnotation
			p.ReadyAnnotation = &v1alpha1.AnnotationMatch{Key: "startup.k8s.io/ready"}
		}), pods: []*corev1.Pod{initPod("a", before)}, says: "pod a does not have annotation"},
		"an annotation of the previous boot": {require: annotated, pods: []*corev1.Pod{initPod("a", before, say)},
			notBefore: start, recheck: start.Add(confirmAfter),
			says: "has not started since the node booted"},
		"a pod that waits for the very taint that waits for it": {require: usual,
			pods: []*corev1.Pod{initPod("a", before, unready, func(p *corev1.Pod) {
				p.Spec.NodeName = ""
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
					Message: "no node fits"}}
			})}, says: "pod a waits to be scheduled: no node fits; pod a can never run here: it does not tolerate this rule's " +
				"own taint example.com/t=v:NoSchedule"},
		"a pod that waits and tolerates it": {require: usual,
			pods: []*corev1.Pod{initPod("a", before, unready, func(p *corev1.Pod) {
				p.Spec.NodeName = ""
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
				p.Spec.Tolerations = []corev1.Toleration{{Key: "example.com/t", Operator: corev1.TolerationOpExists}}
			})}, says: "pod a waits to be scheduled"},
		"a pod that waits no more, since it is deleted": {require: usual, says: "pod a is terminating",
			pods: []*corev1.Pod{initPod("a", before, unready, func(p *corev1.Pod) {
				p.Spec.NodeName, p.DeletionTimestamp = "", &metav1.Time{Time: start}
			})}},
	} {
		t.Run(name, func(t *testing.T) {
			rule := requiring(t, v1alpha1.Requirement{Name: "init", Pods: &tc.require})
			facts := &evidence.Facts{Node: build.MakeNode("n").Obj(),
				Boot:     evidence.Boot{Bound: tc.notBefore, SeenAt: tc.notBefore},
				Gathered: &evidence.Gathered{Pods: map[*evidence.Pods][]*corev1.Pod{rule.Pods()[0]: tc.pods}}}
			v := Evaluate(rule, facts, Observed{Ready: tc.ready, Since: start.Add(-time.Hour)}, start)
			if v.Ready != tc.ready || !v.RecheckAt.Equal(tc.recheck) || !tc.since.IsZero() && !v.Since.Equal(tc.since) {
				t.Errorf("ready %t since %s, recheck at %s", v.Ready, v.Since, v.RecheckAt)
			}
			if v.NeverAppeared != tc.missing || v.HeartbeatCounts != (!tc.ready && !tc.notBefore.IsZero()) {
				t.Errorf("never appeared %t, a heartbeat decides: %t", v.NeverAppeared, v.HeartbeatCounts)
			}
			got := v.Results[0].Message()
			if !strings.Contains(got, tc.says) || strings.HasSuffix(got, " ") || tc.ready && strings.Contains(got, ": pod ") {
				t.Errorf("%q does not say %q", got, tc.says)
			}
			if strings.Contains(got, "can never run") != strings.Contains(tc.says, "can never run") {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestAPodThatCountsGoesOnCountingWhenTheFutureHasCome: the node's clock was an hour ahead when the pod became ready.
func TestAPodThatCountsGoesOnCountingWhenTheFutureHasCome(t *testing.T) {
	agent := build.MakeDaemonSet("kube-system", "agent").Tolerate("")
	agent.Spec.MinReadySeconds = 10
	ahead := func(p *corev1.Pod) *corev1.Pod {
		p.CreationTimestamp = metav1.NewTime(start.Add(-9 * time.Second))
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].LastTransitionTime = metav1.NewTime(start.Add(time.Hour))
		}
		return p
	}
	slim, ok := evidence.DaemonPodOf(ahead(agent.Pod("n", start).Obj()))
	if !ok {
		t.Fatal("is not kept")
	}
	set := daemonSetRule(v1alpha1.DaemonSetsRequirement{}, agent)
	pods := requiring(t, v1alpha1.Requirement{Name: "init", Pods: &usual})
	for name, c := range map[string]struct {
		rule     *ruleset.Rule
		gathered evidence.Gathered
	}{
		"pods": {pods, evidence.Gathered{Pods: map[*evidence.Pods][]*corev1.Pod{
			pods.Pods()[0]: {ahead(initPod("a", start, unprobed))}}}},
		"daemonSets": {set.Rule("u"), evidence.Gathered{
			DaemonPods: map[string][]evidence.DaemonPod{"kube-system": {slim}}}},
	} {
		facts := &evidence.Facts{Node: build.MakeNode("n").Obj(), Arrivals: &evidence.Arrivals{}, Gathered: &c.gathered,
			Manager: set.ManagerName}
		observed := Observed{}
		for _, after := range []time.Duration{0, time.Second, time.Hour - time.Second, time.Hour, time.Hour + 9*time.Second,
			2 * time.Hour} {
			v := Evaluate(c.rule, facts, observed, start.Add(after))
			if observed = v.Observed; v.Ready != (after > 0) {
				t.Errorf("%s, after %s: ready %t", name, after, v.Ready)
			}
		}
	}
}

// TestTheOrderOfPodsDoesNotMatter: a cache returns them in any order, and the status must not change with it.
func TestTheOrderOfPodsDoesNotMatter(t *testing.T) {
	rule := requiring(t, v1alpha1.Requirement{Name: "init", Pods: &usual})
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		pods = append(pods, initPod(name, start, unready, func(p *corev1.Pod) {
			p.Spec.NodeName = ""
			p.Spec.Containers[0] = corev1.Container{Name: "of-" + name}
		}))
	}
	says := func() string {
		v := Evaluate(rule, &evidence.Facts{Node: build.MakeNode("n").Obj(),
			Gathered: &evidence.Gathered{Pods: map[*evidence.Pods][]*corev1.Pod{rule.Pods()[0]: pods}}}, Observed{}, start)
		return v.Results[0].Message() + "\n" + v.Warning()
	}
	got := says()
	slices.Reverse(pods)
	if again := says(); again != got || !strings.Contains(got, "pod c waits to be scheduled and 2 more; pod a can never") {
		t.Errorf("got  %s\nthen %s", got, again)
	}
}

func TestWarnsOfPodsWithoutReadinessProbe(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.PodsRequirement)
		pod  *corev1.Pod
		want string
	}{
		"with a probe": {pod: initPod("a", start)},
		"without": {pod: initPod("a", start, unprobed),
			want: "requirement init: container init of its pods has no readiness probe, so it counts as ready 10s after its " +
				"start, even if it does not work"},
		"without, and with a time of its own": {edit: func(p *v1alpha1.PodsRequirement) { p.MinReadySeconds = new(int32(3)) },
			pod: initPod("a", start, unprobed),
			want: "requirement init: container init of its pods has no readiness probe, so it counts as ready 3s after its " +
				"start, even if it does not work"},
		"without, of another owner": {pod: initPod("a", start, unprobed, func(p *corev1.Pod) { p.OwnerReferences = nil })},
		"where the annotation decides": {edit: func(p *v1alpha1.PodsRequirement) {
			p.ReadyWhen, p.ReadyAnnotation = v1alpha1.PodReadyPolicyAnnotation,
				&v1alpha1.AnnotationMatch{Key: "startup.k8s.io/ready", Value: "true"}
		}, pod: initPod("a", start, unprobed)},
	} {
		t.Run(name, func(t *testing.T) {
			require := *usual.DeepCopy()
			require.OwnerDaemonSet = "startup-init"
			if tc.edit != nil {
				tc.edit(&require)
			}
			rule := requiring(t, v1alpha1.Requirement{Name: "init", Pods: &require})
			facts := &evidence.Facts{Node: build.MakeNode("n").Obj(),
				Gathered: &evidence.Gathered{Pods: map[*evidence.Pods][]*corev1.Pod{rule.Pods()[0]: {tc.pod}}}}
			verdict := Evaluate(rule, facts, Observed{}, start)
			if got := verdict.Warning(); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestNodeOf(t *testing.T) {
	waiting := initPod("a", start, func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		required := &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"made-for"}}}}}}
		p.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	})
	anywhere := initPod("b", start, func(p *corev1.Pod) { p.Spec.NodeName = "" })
	bound := initPod("c", start)
	elsewhere, apart, preferring := waiting.DeepCopy(), anywhere.DeepCopy(), anywhere.DeepCopy()
	elsewhere.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].
		MatchFields[0].Operator = corev1.NodeSelectorOpNotIn
	apart.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
	preferring.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	for want, pods := range map[string][]*corev1.Pod{"n": {bound}, "made-for": {waiting},
		"": {anywhere, elsewhere, apart, preferring}} {
		for i, p := range pods {
			if got := evidence.NodeOf(p); got != want {
				t.Errorf("pod %d of node %q: %q", i, want, got)
			}
		}
	}
}

func TestCSIDriversAndDevices(t *testing.T) {
	driver := func(name string, least *int32) v1alpha1.Requirement {
		return v1alpha1.Requirement{Name: "it", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: name,
			MinAllocatable: least}}
	}
	devices := func(name string) v1alpha1.Requirement {
		return v1alpha1.Requirement{Name: "it", Devices: &v1alpha1.DevicesRequirement{Driver: name, Min: 2}}
	}
	node := &storagev1.CSINode{}
	node.Spec.Drivers = []storagev1.CSINodeDriver{
		{Name: "ebs.csi.aws.com", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(25))}},
		{Name: "unlimited.example.com"},
	}
	for name, tc := range map[string]struct {
		require v1alpha1.Requirement
		ready   bool
		says    string
	}{
		"registered":          {driver("ebs.csi.aws.com", nil), true, "CSI driver ebs.csi.aws.com is registered"},
		"with enough volumes": {driver("ebs.csi.aws.com", new(int32(25))), true, "is registered"},
		"with too few volumes": {driver("ebs.csi.aws.com", new(int32(26))), false,
			"CSI driver ebs.csi.aws.com can attach 25 volumes, must be at least 26"},
		"without a limit": {driver("unlimited.example.com", new(int32(1000))), true, "is registered"},
		"not registered":  {driver("efs.csi.aws.com", nil), false, "CSI driver efs.csi.aws.com is not registered"},
		"enough devices":  {devices("gpu.example.com"), true, "devices of driver gpu.example.com: 2 published"},
		"too few devices": {devices("nic.example.com"), false,
			"devices of driver nic.example.com: 1 published, must be at least 2"},
		"a driver with no devices": {devices("none.example.com"), false,
			"devices of driver none.example.com: none is published, must be at least 2"},
	} {
		t.Run(name, func(t *testing.T) {
			rule := requiring(t, tc.require)
			facts := &evidence.Facts{Node: build.MakeNode("n").Obj(), Gathered: &evidence.Gathered{CSINode: node,
				Devices: map[string]int64{"gpu.example.com": 2, "nic.example.com": 1}}}
			verdict := Evaluate(rule, facts, Observed{}, start)
			if verdict.Ready != tc.ready {
				t.Errorf("ready %t", verdict.Ready)
			}
			if got := verdict.Results[0].Message(); !strings.Contains(got, tc.says) {
				t.Errorf("%q does not say %q", got, tc.says)
			}
			if Evaluate(rule, &evidence.Facts{Node: facts.Node}, Observed{}, start).Ready {
				t.Error("ready without any evidence")
			}
		})
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// daemonSetRule is a rule of the DaemonSets of kube-system, in a cluster with these.
func daemonSetRule(q v1alpha1.DaemonSetsRequirement, sets ...*build.DaemonSetWrapper) *ruleset.Set {
	q.Namespaces = []v1alpha1.NamespaceName{"kube-system"}
	r := build.MakeRule("r").UID("u").Selector("a", "b").MaxUnavailable("1").
		DaemonSets("", func(made *v1alpha1.DaemonSetsRequirement) { *made = q }).
		Taint("example.com/t", "", corev1.TaintEffectNoSchedule).Obj()
	other := build.MakeRule("other").UID("o").Selector("c", "d").Condition("x").
		Taint("example.com/o", "", corev1.TaintEffectNoSchedule).Obj()
	return ruleset.NewSet(ruleset.Compile(r, nil, start), ruleset.Compile(other, nil, start)).Resolve(
		ruleset.Known{Cluster: evidence.Cluster{DaemonSets: func(string) (out []*evidence.DaemonSet) {
			for _, d := range sets {
				out = append(out, evidence.CompileDaemonSet(d.Obj()))
			}
			return out
		}}}, ruleset.NewSet())
}

func TestJudgesDaemonSets(t *testing.T) {
	ago := func(d time.Duration) time.Time { return start.Add(-d) }
	agent := func() *build.DaemonSetWrapper {
		return build.MakeDaemonSet("kube-system", "agent").Tolerate("").Created(ago(24 * time.Hour))
	}
	csi := build.MakeDaemonSet("kube-system", "csi").Tolerate("").Created(ago(24 * time.Hour))
	pod := func(created time.Time) *build.PodWrapper { return agent().Pod("n", created) }
	waiting := func(reason string) *build.PodWrapper {
		p := pod(ago(time.Minute)).Unready()
		p.Spec.NodeName = ""
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled,
			Status: corev1.ConditionFalse, Reason: reason})
		return p
	}
	probeless := func() *build.DaemonSetWrapper {
		return agent().Template(func(p *corev1.PodSpec) { p.Containers[0].ReadinessProbe = nil })
	}
	slow := agent()
	slow.Spec.MinReadySeconds = 60
	started := func(p *build.PodWrapper, at time.Time) *build.PodWrapper {
		p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(at)
		return p
	}
	edited := func(p *build.PodWrapper, edit func(*corev1.PodStatus)) *build.PodWrapper {
		edit(&p.Status)
		return p
	}
	slowly := func(name string, age time.Duration) (*build.DaemonSetWrapper, *build.PodWrapper) {
		d := build.MakeDaemonSet("kube-system", name).Tolerate("")
		d.Spec.MinReadySeconds = 10
		return d, d.Pod("n", ago(age))
	}
	first, in5 := slowly("a", 5*time.Second)
	second, in1 := slowly("b", 9*time.Second)
	third, in9 := slowly("c", time.Second)
	young := build.MakeDaemonSet("kube-system", "new").Tolerate("").Created(ago(time.Minute))
	service := evidence.Service{Released: ago(time.Hour), Undisrupted: true}
	type pods = []*build.PodWrapper
	type sets = []*build.DaemonSetWrapper
	for name, tc := range map[string]struct {
		require v1alpha1.DaemonSetsRequirement
		sets    sets
		pods    pods
		service evidence.Service
		absent  time.Time
		taint   string
		boot    time.Time
		unknown bool // since when there is no pod

		ready          bool
		since, recheck time.Time
		missing        bool
		unclear        bool // nothing that was reported shows that it is not ready
		says           string
	}{
		"ready": {sets: sets{agent()}, pods: pods{pod(ago(time.Minute))}, ready: true, since: ago(time.Minute),
			says: "1 of 1 DaemonSets that belong on this node are ready"},
		"no DaemonSet at all": {missing: true, says: "0 of the DaemonSets belong on this node, must be at least 1"},
		"fewer than wanted": {require: v1alpha1.DaemonSetsRequirement{MinMatching: new(int32(2))}, sets: sets{agent()},
			pods: pods{pod(ago(time.Minute))}, says: "1 of the DaemonSets belong on this node, must be at least 2"},
		"one of two": {sets: sets{agent(), csi}, pods: pods{pod(ago(time.Minute))},
			says: "1 of 2 DaemonSets that belong on this node are ready: DaemonSet kube-system/csi has no pod"},
		"another rule's taint keeps it away": {
			sets: sets{build.MakeDaemonSet("kube-system", "agent").Tolerate("example.com/t")}, taint: "example.com/o",
			missing: true,
			says:    "DaemonSet kube-system/agent has no pod, because of taint example.com/o:NoSchedule of rule other"},
		"a brand-new node's taint keeps it away": {
			sets:    sets{build.MakeDaemonSet("kube-system", "agent").Tolerate("example.com/t")},
			taint:   "node.kubernetes.io/not-ready",
			missing: true, says: "has no pod, because of taint node.kubernetes.io/not-ready:NoSchedule"},
		"not ready": {sets: sets{agent()}, pods: pods{pod(ago(time.Minute)).Unready()},
			says: "pod agent-n of DaemonSet kube-system/agent is not ready"},
		"terminating": {sets: sets{agent()}, pods: pods{pod(ago(time.Minute)).Terminating(start)},
			says: "pod agent-n of DaemonSet kube-system/agent is terminating"},
		"waits": {sets: sets{agent()}, pods: pods{waiting("")},
			says: "pod agent-n of DaemonSet kube-system/agent waits to be scheduled"},
		"cannot be scheduled": {sets: sets{agent()}, pods: pods{waiting("Unschedulable")},
			says: "pod agent-n of DaemonSet kube-system/agent cannot be scheduled"},
		"without a probe": {sets: sets{probeless()},
			pods: pods{probeless().Pod("n", ago(9*time.Second))}, recheck: start.Add(time.Second),
			says: "has not been ready for long enough"},
		"after ten seconds": {sets: sets{probeless()},
			pods: pods{probeless().Pod("n", ago(10*time.Second))}, ready: true, since: start},
		"its own time": {sets: sets{slow}, pods: pods{pod(ago(59 * time.Second))}, recheck: start.Add(time.Second)},
		"the rule's time": {require: v1alpha1.DaemonSetsRequirement{MinReadySeconds: new(int32(0))}, sets: sets{slow},
			pods: pods{pod(start)}, ready: true},
		"a surge": {sets: sets{agent()}, ready: true, since: ago(time.Hour),
			pods: pods{pod(ago(time.Second)).Unready(), pod(ago(time.Hour))}},

		"two ready pods: since the first of them": {sets: sets{agent()}, ready: true, since: ago(time.Hour),
			pods: pods{pod(ago(time.Minute)), pod(ago(time.Hour)), pod(ago(time.Second))}},
		"a ready pod, and a young one: nothing to wait for": {sets: sets{slow}, ready: true, since: start.Add(-time.Hour +
			time.Minute), pods: pods{pod(ago(time.Second)), pod(ago(time.Hour))}},
		"several young ones: the next one to count": {sets: sets{first, second, third, csi},
			pods: pods{in5, in1, in9, csi.Pod("n", ago(time.Hour))}, recheck: start.Add(time.Second),
			says: "1 of 4 DaemonSets that belong on this node are ready"},
		"ready, since no time": {sets: sets{slow}, ready: true,
			pods: pods{edited(pod(ago(time.Second)), func(s *corev1.PodStatus) {
				s.Conditions[0].LastTransitionTime = metav1.Time{}
			})}},
		"without any condition": {sets: sets{agent()}, says: "pod agent-n of DaemonSet kube-system/agent is not ready",
			pods: pods{edited(pod(ago(time.Minute)), func(s *corev1.PodStatus) { s.Conditions = nil })}},
		"with a container that does not run": {sets: sets{agent()}, says: "is not ready",
			pods: pods{edited(pod(ago(time.Minute)), func(s *corev1.PodStatus) {
				s.Conditions[0].Status, s.ContainerStatuses[0].State = corev1.ConditionFalse, corev1.ContainerState{}
			})}},
		"held by its readiness gate": {sets: sets{agent()}, says: "is not ready",
			pods: pods{edited(pod(ago(time.Minute)), func(s *corev1.PodStatus) {
				s.Conditions[0].Status = corev1.ConditionFalse
			})}},
		"Ready, but its container is not": {sets: sets{agent()}, says: "is not ready",
			pods: pods{edited(pod(ago(time.Minute)), func(s *corev1.PodStatus) { s.ContainerStatuses[0].Ready = false })}},
		"terminating, with a successor": {sets: sets{agent()},
			pods: pods{pod(ago(time.Hour)).Terminating(start), pod(ago(time.Minute)).Unready()},
			says: "pod agent-n of DaemonSet kube-system/agent is not ready"},

		"younger than the release": {sets: sets{agent(),
			young},
			pods: pods{pod(ago(2 * time.Hour))}, service: service, ready: true,
			says: "1 of 1 DaemonSets that belong on this node are ready"},
		"the only one is younger than the release, and belongs on the node": {sets: sets{young},
			service: service, ready: true,
			says: "the DaemonSets that belong on this node do not count: they were created after its release"},
		"a new node, and as young": {sets: sets{young},
			missing: true},
		"being replaced": {sets: sets{agent()}, pods: pods{pod(ago(299 * time.Second)).Unready()}, service: service,
			ready: true, recheck: start.Add(time.Second)},
		"replaced in the second of the release": {sets: sets{agent()}, pods: pods{pod(ago(time.Minute)).Unready()},
			service: evidence.Service{Released: ago(time.Minute), Undisrupted: true},
			ready:   true, recheck: start.Add(240 * time.Second)},
		"replaced, for too long": {sets: sets{agent()},
			pods: pods{pod(ago(300 * time.Second)).Unready()}, service: service},
		"on its way out": {sets: sets{agent()}, service: service, ready: true, recheck: start.Add(299 * time.Second),
			pods: pods{pod(ago(2 * time.Hour)).Terminating(ago(time.Second))}},
		"gone without another": {sets: sets{agent()}, service: service, absent: ago(299 * time.Second), ready: true,
			recheck: start.Add(time.Second)},
		"gone for too long": {sets: sets{agent()}, service: service, absent: ago(300 * time.Second), missing: true},
		"the time of the rule": {require: v1alpha1.DaemonSetsRequirement{DisruptionSeconds: new(int32(0))},
			sets:    sets{agent()},
			service: service, absent: ago(time.Second), missing: true},
		"not replaced, but ill": {sets: sets{agent()}, pods: pods{pod(ago(2 * time.Hour)).Unready()}, service: service},
		"ill since before the release": {sets: sets{agent()}, pods: pods{pod(ago(2 * time.Minute)).Unready()},
			service: evidence.Service{Released: ago(time.Minute), Undisrupted: true}},
		"has been replaced": {sets: sets{agent()}, pods: pods{pod(ago(time.Minute))}, service: service, ready: true},
		"replaced, and its successor is not ready: since the deletion": {sets: sets{agent()}, service: service, ready: true,
			pods:    pods{pod(ago(100 * time.Second)).Unready(), pod(ago(2 * time.Hour)).Terminating(ago(299 * time.Second))},
			recheck: start.Add(time.Second)},
		"gone since an unknown time": {sets: sets{agent()}, service: service, unknown: true, missing: true},
		"on a node that is held": {sets: sets{agent()}, pods: pods{pod(ago(time.Second)).Unready()},
			service: evidence.Service{Released: service.Released}},

		"from before the boot": {sets: sets{agent()}, pods: pods{pod(ago(time.Hour))}, boot: ago(time.Minute),
			recheck: start.Add(time.Minute), unclear: true,
			says: "pod agent-n of DaemonSet kube-system/agent has not started since the node booted"},
		"from before the boot, and another has no pod": {sets: sets{agent(), csi}, pods: pods{pod(ago(time.Hour))},
			boot: ago(time.Minute), recheck: start.Add(time.Minute), says: "has not started since the node booted"},
		"from before the boot, and fewer than wanted": {require: v1alpha1.DaemonSetsRequirement{MinMatching: new(int32(2))},
			sets: sets{agent()}, pods: pods{pod(ago(time.Hour))}, boot: ago(time.Minute), recheck: start.Add(time.Minute)},
		"from before the boot, and not ready": {sets: sets{agent()}, pods: pods{pod(ago(time.Hour)).Unready()},
			boot: ago(time.Minute), recheck: start.Add(time.Minute), unclear: true, says: "is not ready"},
		"from after it, and not ready": {sets: sets{agent()}, pods: pods{pod(ago(time.Second)).Unready()},
			boot: ago(time.Minute), recheck: start.Add(time.Minute), says: "is not ready"},
		"from before the boot, and young": {sets: sets{slow}, boot: ago(time.Minute), recheck: start.Add(time.Minute),
			pods: pods{started(pod(ago(55*time.Second)), ago(time.Hour))}, unclear: true,
			says: "has not started since the node booted"},
		"started at a time that cannot be": {sets: sets{agent()}, boot: ago(time.Minute), recheck: start.Add(time.Minute),
			pods: pods{started(pod(ago(time.Second)), start.Add(1<<32*time.Second))}, unclear: true, says: "has not started"},
		"from after it": {sets: sets{agent()}, pods: pods{pod(ago(time.Second))}, boot: ago(time.Minute), ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			set := daemonSetRule(tc.require, tc.sets...)
			rule := set.Rule("u")
			if len(rule.Problems) > 0 {
				t.Fatal(rule.Problems)
			}
			facts := &evidence.Facts{Node: build.MakeNode("n").Obj(), Manager: set.ManagerName, Service: tc.service,
				Boot:     evidence.Boot{Bound: tc.boot, SeenAt: tc.boot},
				Gathered: &evidence.Gathered{DaemonPods: map[string][]evidence.DaemonPod{}}}
			if tc.taint != "" {
				facts.Node.Spec.Taints = []corev1.Taint{{Key: tc.taint, Effect: corev1.TaintEffectNoSchedule}}
			}
			facts.Gathered.Absent = func(ds types.UID, now time.Time) time.Time {
				if tc.absent.IsZero() || ds != agent().UID || !now.Equal(start) {
					t.Errorf("was asked since when %s has no pod", ds)
				}
				return tc.absent
			}
			if tc.unknown {
				facts.Gathered.Absent = nil
			}
			for _, p := range tc.pods {
				slim, ok := evidence.DaemonPodOf(p.Obj())
				if !ok {
					t.Fatal("is not kept")
				}
				facts.Gathered.DaemonPods["kube-system"] = append(facts.Gathered.DaemonPods["kube-system"], slim)
			}
			v := Evaluate(rule, facts, Observed{Ready: tc.ready, Since: ago(time.Hour)}, start)
			if v.Ready != tc.ready || !v.RecheckAt.Equal(tc.recheck) || !tc.since.IsZero() && !v.Since.Equal(tc.since) ||
				v.NeverAppeared != tc.missing || (v.Results[0].Cause == condition.CauseMissing) != tc.missing {
				t.Errorf("ready %t since %s, recheck at %s, never appeared %t", v.Ready, v.Since, v.RecheckAt, v.NeverAppeared)
			}
			if v.Refuted(false) != (!tc.ready && !tc.missing && !tc.unclear) {
				t.Errorf("refuted is %t", v.Refuted(false))
			}
			if got := v.Results[0].Message(); !strings.Contains(got, tc.says) || strings.HasSuffix(got, " ") {
				t.Errorf("%q does not say %q", got, tc.says)
			}
			if got := v.Warning(); got != "" {
				t.Errorf("warns, although no DaemonSet is left out: %s", got)
			}
		})
	}
}

func TestWarnsOfDaemonSetsThatAreLeftOut(t *testing.T) {
	var sets []*build.DaemonSetWrapper
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		sets = append(sets, build.MakeDaemonSet("kube-system", name))
	}
	sets = append(sets, build.MakeDaemonSet("kube-system", "fine").Tolerate(""))
	set := daemonSetRule(v1alpha1.DaemonSetsRequirement{}, sets...)
	facts := &evidence.Facts{Node: build.MakeNode("n").Obj(), Manager: set.ManagerName}
	v := Evaluate(set.Rule("u"), facts, Observed{}, start)
	const want = "requirement agents leaves out DaemonSets that do not tolerate this rule's own taint " +
		"example.com/t:NoSchedule: kube-system/a, kube-system/b, kube-system/c and 2 more: add a toleration to them, or " +
		"exclude them"
	if got := v.Warning(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

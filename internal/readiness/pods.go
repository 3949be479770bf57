// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// probelessReadySeconds is for how long a pod must have been ready by default before it counts, where one of its
// containers has no readiness probe: such a container is "ready" as soon as it has started.
const probelessReadySeconds = 10

// NodeOf is the node that a pod runs on, or, as long as it is not bound, the one that it is made for: a DaemonSet's pod
// requires its node by name. Empty, where it may run anywhere.
func NodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// podState is whether a pod counts, or why it does not.
type podState int

const (
	podCounts podState = iota
	podAbsent
	podForeign
	podTerminating
	podUnscheduled
	podUnschedulable
	podBeforeBoot
	podUnannotated
	podUnready
	podTooYoung
)

// podsFound is what was found of a requirement's pods.
type podsFound struct {
	ready      int
	waiting    []waitingPod // some of those that do not count
	deadlocked *corev1.Pod  // one that can never run, because it does not tolerate the taint that waits for it
	taint      *corev1.Taint
	probeless  *corev1.Pod // one with a container that has no readiness probe, where that decides
}

type waitingPod struct {
	pod *corev1.Pod
	why podState
}

// maxWaiting is how many pods that do not count are named.
const maxWaiting = 3

// judgePods judges the pods of a requirement that run on the node.
func judgePods(rule *ruleset.Rule, p *ruleset.Pods, facts *Facts, now time.Time) (judgement, podsFound) {
	want := int(minReady(p))
	out := podsFound{}
	var counted, coming []time.Time
	seen := false
	boot := facts.bootState(now)
	for _, pod := range facts.podsSince(boot, p) {
		why, since := judgePod(p, pod, now)
		if why != podForeign && !facts.Boot.proves(boot, pod, now) {
			why = podBeforeBoot
		}
		seen = seen || why != podForeign
		switch {
		case why != podCounts:
		case since.After(now):
			coming, why = append(coming, since), podTooYoung
		default:
			counted = append(counted, since)
		}
		if why != podCounts && len(out.waiting) < maxWaiting {
			out.waiting = append(out.waiting, waitingPod{pod, why})
		}
		if why != podForeign {
			out.notice(rule, p, pod)
		}
	}
	out.ready = len(counted)
	slices.SortFunc(counted, time.Time.Compare)
	slices.SortFunc(coming, time.Time.Compare)
	j := requirement(len(counted) >= want, !seen)
	switch missing := want - len(counted); {
	case missing <= 0:
		j.Since = counted[want-1]
	case missing <= len(coming):
		j.ChangesAt = coming[missing-1]
	}
	facts.Boot.await(boot, &j, now)
	return j, out
}

// notice keeps the first pod that can never run, and the first one without a readiness probe.
func (f *podsFound) notice(rule *ruleset.Rule, p *ruleset.Pods, pod *corev1.Pod) {
	if f.probeless == nil && p.ReadyWhen != v1alpha1.PodReadyPolicyAnnotation && probeless(pod) != "" {
		f.probeless = pod
	}
	if f.deadlocked == nil && rule.Taint != nil && rule.Taint.Effect != corev1.TaintEffectPreferNoSchedule &&
		pod.Spec.NodeName == "" && pod.DeletionTimestamp.IsZero() &&
		ruleset.Toleration(pod.Spec.Tolerations, rule.Taint) == nil {
		f.deadlocked, f.taint = pod, rule.Taint
	}
}

func minReady(p *ruleset.Pods) int32 {
	if p.MinReady == nil {
		return 1
	}
	return *p.MinReady
}

func owned(p *ruleset.Pods, pod *corev1.Pod) bool {
	if p.OwnerDaemonSet == "" {
		return true
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.Name == p.OwnerDaemonSet &&
		strings.HasPrefix(owner.APIVersion, "apps/")
}

// judgePod judges one pod that has the labels: since when it counts, or will count, or why it does not. A zero time
// is not known.
func judgePod(p *ruleset.Pods, pod *corev1.Pod, now time.Time) (podState, time.Time) {
	switch {
	case !owned(p, pod):
		return podForeign, time.Time{}
	case !pod.DeletionTimestamp.IsZero():
		return podTerminating, time.Time{}
	case pod.Spec.NodeName == "":
		return podUnscheduled, time.Time{}
	}
	if p.ReadyWhen == v1alpha1.PodReadyPolicyAnnotation || p.ReadyWhen == v1alpha1.PodReadyPolicyPodReadyOrAnnotation {
		if value, ok := pod.Annotations[p.ReadyAnnotation.Key]; ok && value == p.ReadyAnnotation.Value {
			return podCounts, time.Time{}
		}
		if p.ReadyWhen == v1alpha1.PodReadyPolicyAnnotation {
			return podUnannotated, time.Time{}
		}
	}
	if unreadyContainer(pod) != "" {
		return podUnready, time.Time{}
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			since := c.LastTransitionTime.Time
			if since.After(now) { // the node's clock is ahead; the pod's creation is by the API server's
				since = pod.CreationTimestamp.Time
			}
			return podCounts, since.Add(readySeconds(p, pod))
		}
	}
	return podUnready, time.Time{}
}

// unreadyContainer is the name of a container that is not ready, or empty if all are.
func unreadyContainer(pod *corev1.Pod) string {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; !c.Ready {
			return c.Name
		}
	}
	return ""
}

func readySeconds(p *ruleset.Pods, pod *corev1.Pod) time.Duration {
	if p.MinReadySeconds > 0 {
		return time.Duration(p.MinReadySeconds) * time.Second
	}
	if probeless(pod) != "" {
		return probelessReadySeconds * time.Second
	}
	return 0
}

// probeless is the name of a container that has no readiness probe; empty, if all have one.
func probeless(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].ReadinessProbe == nil {
			return pod.Spec.Containers[i].Name
		}
	}
	return ""
}

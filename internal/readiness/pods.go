// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// probelessReadySeconds is for how long a pod must have been ready by default before it counts, where one of its containers
// has no readiness probe: such a container is "ready" as soon as it has started.
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

// podJudgement is what one pod is worth.
type podJudgement struct {
	ready bool
	// since is when it began, or will begin, to count; zero: that is not known.
	since time.Time
	// why it does not count.
	why string
}

// judgePods looks at the pods of a requirement that run on the node.
func judgePods(p *ruleset.Pods, facts *Facts, now time.Time) judgement {
	want := int(minReady(p))
	var counted, coming []time.Time
	seen := 0
	for _, pod := range facts.pods(p) {
		j := judgePod(p, pod, facts.NotBefore)
		if owned(p, pod) {
			seen++
		}
		switch {
		case !j.ready:
		case j.since.After(now):
			coming = append(coming, j.since)
		default:
			counted = append(counted, j.since)
		}
	}
	slices.SortFunc(counted, time.Time.Compare)
	slices.SortFunc(coming, time.Time.Compare)
	out := requirement(len(counted) >= want, seen == 0)
	switch missing := want - len(counted); {
	case missing <= 0:
		out.Since = counted[want-1]
	case missing <= len(coming):
		out.ChangesAt = coming[missing-1]
	}
	return out
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
	return owner != nil && owner.Kind == "DaemonSet" && owner.Name == p.OwnerDaemonSet && strings.HasPrefix(owner.APIVersion, "apps/")
}

// judgePod looks at one pod, which has the labels.
func judgePod(p *ruleset.Pods, pod *corev1.Pod, notBefore time.Time) podJudgement {
	not := func(format string, args ...any) podJudgement { return podJudgement{why: fmt.Sprintf(format, args...)} }
	switch {
	case !owned(p, pod):
		return not("is not of DaemonSet %s", p.OwnerDaemonSet)
	case !pod.DeletionTimestamp.IsZero():
		return not("is terminating")
	case pod.Spec.NodeName == "":
		return not("waits to be scheduled%s", unscheduled(pod))
	case startedBefore(pod, notBefore):
		return not("has not started since the node booted")
	}
	if p.ReadyWhen == v1alpha1.PodReadyPolicyAnnotation || p.ReadyWhen == v1alpha1.PodReadyPolicyPodReadyOrAnnotation {
		if a := p.ReadyAnnotation; pod.Annotations[a.Key] == a.Value && hasKey(pod.Annotations, a.Key) {
			return podJudgement{ready: true}
		}
		if p.ReadyWhen == v1alpha1.PodReadyPolicyAnnotation {
			return not("does not bear annotation %s=%s", p.ReadyAnnotation.Key, p.ReadyAnnotation.Value)
		}
	}
	return byConditions(p, pod)
}

func hasKey(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}

// byConditions goes by the containers' readiness and the pod's Ready condition.
func byConditions(p *ruleset.Pods, pod *corev1.Pod) podJudgement {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; !c.Ready {
			return podJudgement{why: fmt.Sprintf("has a container, %s, that is not ready", c.Name)}
		}
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue {
			continue
		}
		return podJudgement{ready: true, since: c.LastTransitionTime.Add(readySeconds(p, pod)),
			why: "has not been ready for long enough"}
	}
	return podJudgement{why: "is not ready"}
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

// Warning is, in words, what makes a rule's evidence on the node weaker than it looks, the same on each node; empty, if
// nothing does.
func Warning(rule *ruleset.Rule, facts *Facts) string {
	for i := range rule.Requirements {
		r := &rule.Requirements[i]
		if r.Pods == nil || r.Pods.ReadyWhen == v1alpha1.PodReadyPolicyAnnotation {
			continue
		}
		for _, pod := range facts.pods(r.Pods) {
			if !owned(r.Pods, pod) {
				continue
			}
			if c := probeless(pod); c != "" {
				return fmt.Sprintf("requirement %s: container %s of its pods has no readiness probe, and counts as ready %s after it has started, whatever it does",
					r.Name, c, readySeconds(r.Pods, pod))
			}
		}
	}
	return ""
}

// startedBefore reports whether a container runs, or ran last, since before the given time.
func startedBefore(pod *corev1.Pod, t time.Time) bool {
	if t.IsZero() {
		return false
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return true
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running == nil || c.State.Running.StartedAt.Time.Before(t)
	})
}

func unscheduled(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return ": " + c.Message
		}
	}
	return ""
}

// deadlocked is a pod of a requirement that can never run, because it does not tolerate the very taint that waits for it;
// nil, if there is none.
func deadlocked(rule *ruleset.Rule, p *ruleset.Pods, facts *Facts) *corev1.Pod {
	if rule.Taint == nil || rule.Taint.Effect == corev1.TaintEffectPreferNoSchedule {
		return nil
	}
	for _, pod := range facts.pods(p) {
		if owned(p, pod) && pod.Spec.NodeName == "" && pod.DeletionTimestamp.IsZero() && ruleset.Toleration(pod.Spec.Tolerations, rule.Taint) == nil {
			return pod
		}
	}
	return nil
}

func describePods(rule *ruleset.Rule, p *ruleset.Pods, facts *Facts, now time.Time) string {
	counted := 0
	var why []string
	for _, pod := range facts.pods(p) {
		j := judgePod(p, pod, facts.NotBefore)
		if j.ready && !j.since.After(now) {
			counted++
			continue
		}
		if len(why) < 3 {
			why = append(why, fmt.Sprintf("pod %s %s", pod.Name, j.why))
		}
	}
	text := fmt.Sprintf("%d of %d pods %s of namespace %s are ready on this node", counted, minReady(p), p.Labels, p.Namespace)
	if counted < int(minReady(p)) && len(why) > 0 {
		slices.Sort(why)
		text += ": " + strings.Join(why, ", ")
	}
	if pod := deadlocked(rule, p, facts); pod != nil {
		text += fmt.Sprintf("; pod %s can never run here: it does not tolerate this rule's own taint %s", pod.Name, rule.Taint.ToString())
	}
	return text
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/text"
)

// probelessReadySeconds is the default of minReadySeconds for a pod that has a container without a readiness probe.
// Such a container is "ready" as soon as it has started.
const probelessReadySeconds = 10

// NodeOf returns the node of a pod. If the pod is not bound yet, it returns the node that the pod was created for,
// which a DaemonSet's pod requires by name, or "" if the pod may run on any node.
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

// Pods is a compiled requirement of pods.
type Pods struct {
	v1alpha1.PodsRequirement
	// Labels is the compiled selector.
	Labels labels.Selector
}

func compilePods(v *Problems, field string, r *v1alpha1.Requirement) Kind {
	p := r.Pods
	if p == nil {
		return nil
	}
	field += ".pods"
	selector := v.Selector(field+".selector", &p.Selector)
	if p.Namespace == "" {
		v.Invalid(field+".namespace", "is required")
	}
	if p.MinReady != nil && *p.MinReady < 1 {
		v.Invalid(field+".minReady", "must be at least 1")
	}
	OneOf(v, field+".readyWhen", p.ReadyWhen, v1alpha1.PodReadyPolicyPodReady, v1alpha1.PodReadyPolicyAnnotation,
		v1alpha1.PodReadyPolicyPodReadyOrAnnotation)
	if p.ReadyAnnotation == nil && (p.ReadyWhen == v1alpha1.PodReadyPolicyAnnotation ||
		p.ReadyWhen == v1alpha1.PodReadyPolicyPodReadyOrAnnotation) {
		v.Invalid(field+".readyAnnotation", "is required with readyWhen: %s", p.ReadyWhen)
	}
	return &Pods{PodsRequirement: *p, Labels: selector}
}

// Origin implements Kind.
func (*Pods) Origin() Origin { return Elsewhere }

// podState says whether a pod counts, or why it does not.
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

// words says why a pod does not count, for a sentence about it.
func (s podState) words() string {
	switch s {
	case podTerminating:
		return "is terminating"
	case podUnscheduled:
		return "waits to be scheduled"
	case podUnschedulable:
		return "cannot be scheduled"
	case podBeforeBoot:
		return "has not started since the node booted"
	case podTooYoung:
		return "has not been ready for long enough"
	}
	return "is not ready"
}

// podsFound describes the pods of a requirement on a node.
type podsFound struct {
	*Pods
	ready      int
	former     int           // those that may be from before the node booted, and would count if they were ready
	waiting    []waitingPod  // those that do not count
	deadlocked *corev1.Pod   // one that can never run: it does not tolerate taint, and the taint waits for it
	taint      *corev1.Taint // the rule's
	probeless  *corev1.Pod   // one that has a container without a readiness probe, if that matters
}

type waitingPod struct {
	pod *corev1.Pod
	why podState
}

// maxWaiting is the number of pods, or DaemonSets, that a message names.
const maxWaiting = 3

func (p *Pods) judge(facts *Facts, now time.Time) (condition.Judgement, finding) {
	want := p.minReady()
	out := &podsFound{Pods: p}
	var counted, coming []time.Time
	var again time.Time
	seen := false
	boot := facts.bootState(now)
	pods, known := facts.podsSince(boot, p)
	if !known {
		return unlisted(p.Namespace).judge(facts, boot, now)
	}
	for _, pod := range pods {
		why, since := facts.judgePod(p, pod, now)
		if ok, at := startsOf(pod).prove(facts, boot, now); !ok && why != podForeign {
			if why != podTerminating && why != podUnscheduled {
				out.former++
			}
			why, again = podBeforeBoot, earlier(again, at)
		}
		seen = seen || why != podForeign
		switch {
		case why != podCounts:
		case since.After(now):
			coming, why = append(coming, since), podTooYoung
		default:
			counted = append(counted, since)
		}
		if why != podCounts {
			out.waiting = append(out.waiting, waitingPod{pod, why})
		}
		if why != podForeign {
			out.notice(pod, facts.Own)
		}
	}
	out.ready = len(counted)
	slices.SortFunc(counted, time.Time.Compare)
	slices.SortFunc(coming, time.Time.Compare)
	j := requirement(len(counted) >= want, !seen)
	switch missing := want - len(counted); {
	case missing <= 0:
		j.Since, again = counted[want-1], time.Time{}
	case missing <= len(coming):
		again = earlier(again, coming[missing-1])
	}
	j.ChangesAt = again
	facts.Boot.await(boot, &j, now)
	return j, out
}

// notice stores the first pod by name that can never run, and the first one without a readiness probe.
func (f *podsFound) notice(pod *corev1.Pod, own *corev1.Taint) {
	before := func(first *corev1.Pod) bool { return first == nil || pod.Name < first.Name }
	if before(f.probeless) && f.ReadyWhen != v1alpha1.PodReadyPolicyAnnotation && probeless(pod) != "" {
		f.probeless = pod
	}
	if before(f.deadlocked) && Repels(own) && pod.Spec.NodeName == "" && pod.DeletionTimestamp.IsZero() &&
		Toleration(pod.Spec.Tolerations, own) == nil {
		f.deadlocked, f.taint = pod, own
	}
}

func (p *Pods) minReady() int { return int(ptr.Deref(p.MinReady, 1)) }

func (p *Pods) owns(pod *corev1.Pod) bool {
	if p.OwnerDaemonSet == "" {
		return true
	}
	owner := daemonSetOf(pod)
	return owner != nil && owner.Name == p.OwnerDaemonSet
}

// daemonSetOf returns the reference to the DaemonSet of a pod, or nil.
func daemonSetOf(pod *corev1.Pod) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "DaemonSet" || !strings.HasPrefix(owner.APIVersion, "apps/") {
		return nil
	}
	return owner
}

// judgePod returns why a pod with the requirement's labels does not count; or podCounts, and since when it counts or
// will count. A zero time means unknown.
func (f *Facts) judgePod(p *Pods, pod *corev1.Pod, now time.Time) (podState, time.Time) {
	switch {
	case !p.owns(pod):
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
	c := condition.OfPod(pod, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionTrue {
		return podUnready, time.Time{}
	}
	return podCounts, f.readyFor(p.readySeconds(pod), readyPod{pod.Namespace, pod.Name, c.LastTransitionTime.Time,
		pod.CreationTimestamp.Time}, now)
}

// unreadyContainer returns the name of a container that is not ready, or "" if all are.
func unreadyContainer(pod *corev1.Pod) string {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; !c.Ready {
			return c.Name
		}
	}
	return ""
}

func (p *Pods) readySeconds(pod *corev1.Pod) time.Duration {
	if p.MinReadySeconds != nil {
		return time.Duration(*p.MinReadySeconds) * time.Second
	}
	if probeless(pod) != "" {
		return probelessReadySeconds * time.Second
	}
	return 0
}

// probeless returns the name of a container without a readiness probe, or "" if all have one.
func probeless(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].ReadinessProbe == nil {
			return pod.Spec.Containers[i].Name
		}
	}
	return ""
}

func (f *podsFound) refutes() bool { return f.ready+f.former < f.minReady() }

func (f *podsFound) message(*Result) string {
	want := f.minReady()
	out := fmt.Sprintf("%d of %d pods ready (namespace %s, selector %s)", f.ready, want, f.Namespace, f.Labels)
	if f.ready < want && len(f.waiting) > 0 {
		why := make([]string, len(f.waiting))
		for i, w := range f.waiting {
			why[i] = fmt.Sprintf("pod %s %s", w.pod.Name, w.words(f.Pods))
		}
		slices.Sort(why) // a cache has no order
		out += ": " + text.Few(why, maxWaiting, len(why))
	}
	if f.deadlocked != nil {
		out += fmt.Sprintf("; pod %s can never run here: it does not tolerate this rule's own taint %s",
			f.deadlocked.Name, f.taint.ToString())
	}
	return out
}

// words returns why a pod does not count.
func (w *waitingPod) words(p *Pods) string {
	switch w.why {
	case podForeign:
		return "is not of DaemonSet " + p.OwnerDaemonSet
	case podUnscheduled:
		return w.why.words() + unscheduled(w.pod)
	case podUnannotated:
		return fmt.Sprintf("does not have annotation %s=%s", p.ReadyAnnotation.Key, p.ReadyAnnotation.Value)
	case podUnready:
		if c := unreadyContainer(w.pod); c != "" {
			return fmt.Sprintf("has a container that is not ready: %s", c)
		}
	}
	return w.why.words()
}

func unscheduled(pod *corev1.Pod) string {
	if c := condition.OfPod(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Message != "" {
		return ": " + c.Message
	}
	return ""
}

func (f *podsFound) warning(name string) string {
	if f.probeless == nil {
		return ""
	}
	return fmt.Sprintf(
		"requirement %s: container %s of its pods has no readiness probe, so it counts as ready %s after its start, even "+
			"if it does not work",
		name, probeless(f.probeless), f.readySeconds(f.probeless))
}

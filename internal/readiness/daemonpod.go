// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"math"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DaemonPod is what is kept of a DaemonSet's pod: there may be hundreds of thousands.
type DaemonPod struct {
	// Name is the pod's name. Its namespace and node are those that it is kept under.
	Name string
	// Owner is the DaemonSet's UID.
	Owner unique.Handle[types.UID]

	created, deleted, ready stamp
	first, last             stamp // of the starts of its containers, if all run
	flags                   podFlags
}

type podFlags uint8

const (
	podIsBound podFlags = 1 << iota
	podIsUnschedulable
	podIsProbeless
)

// stamp is a time in Unix seconds, which is the resolution of the API; zero is no time.
type stamp uint32

func stampOf(t metav1.Time) stamp {
	if s := t.Unix(); s > 0 && s <= math.MaxUint32 {
		return stamp(s)
	}
	return 0
}

func (s stamp) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0)
}

// DaemonPodOf returns what is kept of a pod, and reports whether it is of a DaemonSet and has not ended.
func DaemonPodOf(pod *corev1.Pod) (DaemonPod, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "DaemonSet" || !strings.HasPrefix(owner.APIVersion, "apps/") ||
		pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return DaemonPod{}, false
	}
	out := DaemonPod{
		Name: strings.Clone(pod.Name), Owner: unique.Make(owner.UID), created: stampOf(pod.CreationTimestamp),
	}
	if at := pod.DeletionTimestamp; at != nil { // it is the end of the grace period
		out.deleted = max(1, stampOf(*at))
		if grace := pod.DeletionGracePeriodSeconds; grace != nil && *grace > 0 && *grace < int64(out.deleted) {
			out.deleted -= stamp(*grace) //nolint:gosec // less than a stamp
		}
	}
	if pod.Spec.NodeName != "" {
		out.flags |= podIsBound
	}
	if probeless(pod) != "" {
		out.flags |= podIsProbeless
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && unreadyContainer(pod) == "":
			out.ready = max(1, stampOf(c.LastTransitionTime))
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			c.Reason == corev1.PodReasonUnschedulable:
			out.flags |= podIsUnschedulable
		}
	}
	out.keepStarts(pod)
	return out, true
}

// keepStarts keeps when the first and the last of a pod's containers started, if all have.
func (p *DaemonPod) keepStarts(pod *corev1.Pod) {
	if !allStarted(pod, func(time.Time) bool { return true }) {
		return
	}
	for i := range pod.Status.ContainerStatuses {
		at := stampOf(pod.Status.ContainerStatuses[i].State.Running.StartedAt)
		p.last = max(p.last, at)
		if i == 0 || at < p.first {
			p.first = at
		}
	}
}

// readySince is since when a pod has been ready, by a clock that is not ahead; zero if it is not ready.
func (p *DaemonPod) readySince(now time.Time) time.Time {
	since := p.ready.time()
	if since.After(now) { // the node's clock is ahead; the pod's creation is by the API server's
		return p.created.time()
	}
	return since
}

// proves reports whether a DaemonSet's pod shows that it runs since the boot; see Boot.proves.
func (p *DaemonPod) proves(b *Boot, boot bootState, now time.Time) bool {
	runs := p.last != 0
	switch {
	case boot == settled || boot == final:
		return true
	case !b.Former.IsZero() && runs && p.last.time().Before(b.Former):
		return false
	case boot == confirmed:
		return true
	}
	return runs && !p.first.time().Before(b.Bound) && !p.last.time().After(now)
}

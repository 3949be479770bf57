// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"math"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/internal/evidence/condition"
)

// DaemonPod is a small copy of a DaemonSet's pod: there may be hundreds of thousands. Its namespace and node are the
// keys under which it is stored.
type DaemonPod struct {
	// Name is the pod's name.
	Name string
	// Owner is the DaemonSet's UID.
	Owner unique.Handle[types.UID]

	created, deleted, ready stamp
	starts                  starts
	flags                   podFlags
}

type podFlags uint8

const (
	podIsBound podFlags = 1 << iota
	podIsUnschedulable
	podIsProbeless
)

// stamp is a time in Unix seconds, the resolution of the API. Zero means no time.
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

// DaemonPodOf returns the copy of a pod, or false if the pod is not a DaemonSet's, or has ended.
func DaemonPodOf(pod *corev1.Pod) (DaemonPod, bool) {
	owner := daemonSetOf(pod)
	if owner == nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return DaemonPod{}, false
	}
	out := DaemonPod{
		Name: strings.Clone(pod.Name), Owner: unique.Make(owner.UID), created: stampOf(pod.CreationTimestamp),
		starts: startsOf(pod),
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
	if c := condition.OfPod(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue &&
		unreadyContainer(pod) == "" {
		out.ready = max(1, stampOf(c.LastTransitionTime))
	}
	if c := condition.OfPod(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse &&
		c.Reason == corev1.PodReasonUnschedulable {
		out.flags |= podIsUnschedulable
	}
	return out, true
}

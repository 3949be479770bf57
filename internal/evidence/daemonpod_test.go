// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/test/build"
)

func TestKeepsOnlyPodsOfDaemonSetsThatHaveNotEnded(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	pod := build.MakeDaemonSet("kube-system", "agent").Pod("n", at)
	for name, edit := range map[string]func(*corev1.Pod){
		"of no owner":                func(p *corev1.Pod) { p.OwnerReferences = nil },
		"of a ReplicaSet":            func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" },
		"of another API's DaemonSet": func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1" },
		"that succeeded":             func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"that failed":                func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
	} {
		p := pod.Obj()
		edit(p)
		if _, ok := DaemonPodOf(p); ok {
			t.Errorf("one %s is kept", name)
		}
	}
	dying := pod.Obj()
	dying.DeletionTimestamp = &metav1.Time{Time: at.Add(30 * time.Second)}
	dying.DeletionGracePeriodSeconds = new(int64(30))
	if p, ok := DaemonPodOf(dying); !ok || !p.deleted.time().Equal(at) {
		t.Error("a deletion does not count from its request", p.deleted.time())
	}
	dying.DeletionTimestamp.Time, *dying.DeletionGracePeriodSeconds = at.Add(1<<33*time.Second), 1<<33+1
	if p, ok := DaemonPodOf(dying); !ok || p.deleted == 0 {
		t.Error("a deletion with a grace period of centuries does not count")
	}
}

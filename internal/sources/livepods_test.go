// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/test/build"
)

// TestPodsThatMakeANodeBusy: static pods and those of DaemonSets are part of the node, and pods of the system make it
// not busy. A taint would evict or refuse each pod that does not tolerate it, except static ones.
func TestPodsThatMakeANodeBusy(t *testing.T) {
	pod := func(namespace string) *build.PodWrapper { return build.MakePod(namespace, "p") }
	owned := func(kind string, controls bool) *build.PodWrapper {
		p := pod("default")
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: &controls}}
		return p
	}
	static := func() *build.PodWrapper { return pod("default").Annotation(corev1.MirrorPodAnnotationKey, "x") }
	taint := &corev1.Taint{Key: "example.com/cni", Effect: corev1.TaintEffectNoExecute}
	for name, c := range map[string]struct {
		pod                        *build.PodWrapper
		part, busy, occupies, hurt bool // hurt: by the taint
	}{
		"a pod":                          {pod: pod("default"), busy: true, occupies: true, hurt: true},
		"one that tolerates the taint":   {pod: pod("default").Tolerate(taint.Key, -1), busy: true, occupies: true},
		"one of a ReplicaSet":            {pod: owned("ReplicaSet", true), busy: true, occupies: true, hurt: true},
		"one of a DaemonSet":             {pod: owned("DaemonSet", true), part: true, hurt: true},
		"one of the node":                {pod: owned("Node", true), part: true, hurt: true},
		"one that a DaemonSet only owns": {pod: owned("DaemonSet", false), busy: true, occupies: true, hurt: true},
		"a static one":                   {pod: static(), part: true},
		"one of the system":              {pod: pod("kube-system"), occupies: true, hurt: true},
		"a public one":                   {pod: pod("kube-public"), occupies: true, hurt: true},
	} {
		p := c.pod.Obj()
		if PartOfNode(p) != c.part || Busy(p) != c.busy || Occupies(nil)(p) != c.occupies || Occupies(taint)(p) != c.hurt {
			t.Errorf("%s: part of the node %t, busy %t, occupies %t, with the taint %t", name, PartOfNode(p), Busy(p),
				Occupies(nil)(p), Occupies(taint)(p))
		}
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

// TestWhichChangesOfANodeMatter: those of heartbeats do not, or each pass would follow the one before.
func TestWhichChangesOfANodeMatter(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	ready := func() *build.NodeWrapper {
		return build.MakeNode("n1").Label("a", "b").Condition("Ready", corev1.ConditionTrue, at)
	}
	lost := func() *build.NodeWrapper { return ready().Condition("Ready", corev1.ConditionUnknown, at) }
	for name, c := range map[string]struct {
		before, after *build.NodeWrapper
		want          bool
	}{
		"a heartbeat":         {ready(), ready().Heartbeat("Ready", at.Add(time.Minute)), false},
		"another condition":   {ready(), ready().Condition("Disk", corev1.ConditionTrue, at), false},
		"another annotation":  {ready(), ready().Annotation("a", "b"), false},
		"lost":                {ready(), lost(), true},
		"lost, and again":     {lost(), lost().Condition("Ready", corev1.ConditionUnknown, at.Add(time.Minute)), true},
		"ready again":         {lost(), ready(), true},
		"another label":       {ready(), ready().Label("a", "c"), true},
		"overridden":          {ready(), ready().Annotation(v1alpha1.OverrideAnnotation, "Release"), true},
		"no longer so":        {ready().Annotation(v1alpha1.OverrideAnnotation, "Release"), ready(), true},
		"nothing but a taint": {ready(), ready().Taint("a", "b", corev1.TaintEffectNoSchedule), false},
	} {
		got := Relevant().Update(event.TypedUpdateEvent[*corev1.Node]{ObjectOld: c.before.Obj(), ObjectNew: c.after.Obj()})
		if got != c.want {
			t.Errorf("%s: it matters is %t, want %t", name, got, c.want)
		}
	}
}

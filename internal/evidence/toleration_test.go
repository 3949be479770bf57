// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestToleration(t *testing.T) {
	taint := &corev1.Taint{Key: "example.com/level", Value: "5", Effect: corev1.TaintEffectNoSchedule}
	for name, c := range map[string]struct {
		of   corev1.Toleration
		want bool
	}{
		"everything":    {of: corev1.Toleration{Operator: corev1.TolerationOpExists}, want: true},
		"its value":     {of: corev1.Toleration{Key: taint.Key, Value: "5"}, want: true},
		"another value": {of: corev1.Toleration{Key: taint.Key, Value: "6", Operator: corev1.TolerationOpEqual}},
		"another key":   {of: corev1.Toleration{Key: "example.com/x", Operator: corev1.TolerationOpExists}},
		"another effect": {of: corev1.Toleration{Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute}},
		"Gt a smaller number": {of: corev1.Toleration{Key: taint.Key, Value: "4", Operator: corev1.TolerationOpGt},
			want: true},
		"Gt the same number": {of: corev1.Toleration{Key: taint.Key, Value: "5", Operator: corev1.TolerationOpGt}},
		"Lt a larger number": {of: corev1.Toleration{Key: taint.Key, Value: "6", Operator: corev1.TolerationOpLt},
			want: true},
		"Lt the same number":  {of: corev1.Toleration{Key: taint.Key, Value: "5", Operator: corev1.TolerationOpLt}},
		"an unknown operator": {of: corev1.Toleration{Key: taint.Key, Value: "5", Operator: "Like"}},
	} {
		if got := Toleration([]corev1.Toleration{{Key: "other"}, c.of}, taint) != nil; got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

// published is a slice of a pool, with so many good devices and one for each taint.
func published(generation, of int64, good int, taints ...resourcev1.DeviceTaintEffect) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "gpu",
		Pool: resourcev1.ResourcePool{Name: "n", Generation: generation, ResourceSliceCount: of}}}
	s.Spec.Devices = make([]resourcev1.Device, good)
	for _, effect := range taints {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Taints: []resourcev1.DeviceTaint{{Effect: effect}}})
	}
	return s
}

func TestDevices(t *testing.T) {
	type list = []*resourcev1.ResourceSlice
	known := map[pool]int64{}
	for _, step := range []struct {
		tells string
		of    list
		known map[pool]int64
		want  int64
	}{
		{"a pool of two slices", list{published(1, 2, 4), published(1, 2, 3)}, known, 7},
		{"one is published again: the last complete count stands", list{published(1, 2, 4), published(2, 2, 1)}, known, 7},
		{"both are", list{published(2, 2, 4), published(2, 2, 1)}, known, 5},
		{"an older generation is left over", list{published(2, 2, 4), published(2, 2, 1), published(1, 2, 9)}, known, 5},
		{"without memory the newest generation counts", list{published(1, 2, 4), published(2, 2, 1)}, nil, 1},
		{"tainted devices are not good ones", list{published(3, 1, 7, resourcev1.DeviceTaintEffectNoSchedule,
			resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNone)}, known, 8},
		{"all gone", nil, known, 0},
		{"and what was known of them", list{published(1, 2, 4)}, known, 4},
	} {
		if got := devices(step.of, step.known)["gpu"]; got != step.want {
			t.Errorf("%s: %d, want %d", step.tells, got, step.want)
		}
	}
}

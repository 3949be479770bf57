// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
)

// pool names a pool of devices of one driver.
type pool struct{ driver, name string }

// devices counts the devices in a node's ResourceSlices that pods can use, by driver. A driver publishes a pool slice
// by slice, with a new generation. Until all slices have it, the last complete count in known is used. devices updates
// known, which may be nil.
func devices(published []*resourcev1.ResourceSlice, known map[pool]int64) map[string]int64 {
	pools := map[pool][]*resourcev1.ResourceSlice{}
	for _, s := range published {
		p := pool{s.Spec.Driver, s.Spec.Pool.Name}
		pools[p] = append(pools[p], s)
	}
	out := map[string]int64{}
	for p, all := range pools {
		n, complete := newest(all)
		if last, ok := known[p]; ok && !complete {
			n = last
		}
		if complete && known != nil {
			known[p] = n
		}
		out[p.driver] += n
	}
	for p := range known {
		if pools[p] == nil {
			delete(known, p)
		}
	}
	return out
}

// newest counts the devices of a pool's newest generation, and reports whether all its slices are there.
func newest(all []*resourcev1.ResourceSlice) (count int64, complete bool) {
	generation, slicesFound := all[0].Spec.Pool.Generation, int64(0)
	for _, s := range all {
		generation = max(generation, s.Spec.Pool.Generation)
	}
	for _, s := range all {
		if s.Spec.Pool.Generation != generation {
			continue
		}
		slicesFound++
		complete = slicesFound >= s.Spec.Pool.ResourceSliceCount
		for i := range s.Spec.Devices {
			if !slices.ContainsFunc(s.Spec.Devices[i].Taints, keepsPodsOff) {
				count++
			}
		}
	}
	return count, complete
}

func keepsPodsOff(t resourcev1.DeviceTaint) bool {
	return t.Effect == resourcev1.DeviceTaintEffectNoSchedule || t.Effect == resourcev1.DeviceTaintEffectNoExecute
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodegate/nodegate/internal/fleet"
)

// Starts returns how many starts of nodes all processes have counted, by rule, and forgets them. Stories that are
// played at the same time are counted together.
func Starts() map[string]int {
	families, err := metrics.Registry.Gather()
	utilruntime.Must(err)
	out := map[string]int{}
	for _, f := range families {
		if f.GetName() != "node_readiness_startups_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "rule" {
					out[l.GetValue()] += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	for rule := range out {
		fleet.ForgetRule(rule)
	}
	return out
}

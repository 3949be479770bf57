// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"math/rand/v2"
	"slices"
)

// clocks says which clocks of replicas are wrong, and sets clocks of replicas and nodes. It draws for itself, so that
// the rest of the story stays the same. No clock is so far ahead of a node's that all that the node reports is too old:
// published conditions would change with each report.
func (g *generator) clocks(seed uint64) {
	own := rand.New(rand.NewPCG(seed, 4))
	if own.IntN(3) > 0 {
		return
	}
	for range g.script.Replicas {
		g.script.Clocks = append(g.script.Clocks, []int{0, 0, 40, -30, 400, -400, -4000}[own.IntN(7)])
	}
	for range own.IntN(4) {
		s := Step{Do: "clock", Replica: own.IntN(g.script.Replicas), N: []int{15, -15, 50, -50, -400, -4000}[own.IntN(6)]}
		if own.IntN(3) == 0 {
			s = Step{Do: "node.clock", Node: 1 + own.IntN(g.nodes), N: []int{15, -15, 50, -50, 400}[own.IntN(5)]}
		}
		g.script.Steps = slices.Insert(g.script.Steps, own.IntN(len(g.script.Steps)), s)
	}
}

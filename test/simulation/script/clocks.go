// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"math/rand/v2"
	"slices"
)

// clocks sets clocks of nodes. It draws for itself, so that the rest of the story stays the same.
func (g *generator) clocks(seed uint64) {
	own := rand.New(rand.NewPCG(seed, 4))
	if own.IntN(3) > 0 {
		return
	}
	for range own.IntN(3) {
		s := Step{Do: "node.clock", Node: 1 + own.IntN(g.nodes), N: []int{15, -15, 50, -50, 400}[own.IntN(5)]}
		g.script.Steps = slices.Insert(g.script.Steps, own.IntN(len(g.script.Steps)), s)
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

// oddities are values that the API server accepts, and that only a careless reporter writes.
func (g *generator) oddities() {
	g.add(Step{Do: "node.report", Node: g.node(), Of: one(g, "A", "A", "A", "B", "P"),
		Value: one(g, "true", "false", "TRUE", "")})
	if g.IntN(2) == 0 {
		g.add(Step{Do: "quiet"})
	}
}

// newcomers are nodes that register while the operator cannot read evidence, and rules say that they are not in force.
func (g *generator) newcomers() {
	n := g.node()
	if g.IntN(2) == 0 {
		g.add(Step{Do: "evidence", Value: "forbidden"})
	}
	g.add(Step{Do: "calm"}, Step{Do: "pass", N: one(g, 1, 5, 35)}, Step{Do: "quiet"}, Step{Do: "node.delete", Node: n})
	g.register(n)
	g.add(Step{Do: "evidence", Value: "allowed"})
}

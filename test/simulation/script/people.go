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

// remediators cordon or delete nodes that are held, one after the other.
func (g *generator) remediators() {
	if g.IntN(3) == 0 {
		g.add(Step{Do: one(g, "node.remedy", "node.finish"), Node: g.node(), Of: one(g, "", "cordon", "terminate"),
			Value: g.pool()})
		return
	}
	if g.IntN(2) == 0 {
		g.add(Step{Do: "rule.edit", Rule: g.rule(), Value: g.limiter.crowdLimit(2) + `"suspend":null,"dryRun":null,` +
			`"requirements":null,"existingNodes":null,"conditions":[{"type":"example.com/A","requiredStatus":"True"}]}`})
	}
	for n := range g.nodes {
		g.add(Step{Do: "node.report", Node: n + 1, Of: "A", Value: "True"})
	}
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 12}, Step{Do: "quiet"})
	for _, n := range g.Perm(g.nodes) {
		g.add(Step{Do: "node.report", Node: n + 1, Of: "A", Value: "False"}, Step{Do: "pass", N: one(g, 1, 12)},
			Step{Do: "quiet"})
		if g.IntN(6) == 0 {
			for r := range g.script.Replicas {
				g.add(Step{Do: "down", Replica: r})
			}
		}
		g.add(Step{Do: "node.remedy", Node: n + 1, Value: g.pool(), Of: one(g, "", "", "", "cordon", "terminate")},
			Step{Do: one(g, "calm", "calm", "quiet")})
		if g.IntN(4) == 0 {
			g.add(Step{Do: "node.finish", Node: n + 1})
		}
		if g.IntN(4) == 0 {
			g.add(Step{Do: one(g, "kill", "kill", "up"), Replica: g.replica()}, Step{Do: "quiet"})
		}
	}
}

// hoarders fill annotations of nodes, and report boot IDs that would fill them.
func (g *generator) hoarders() {
	n := g.node()
	if g.IntN(2) == 0 {
		g.add(Step{Do: "node.reboot", Node: n, N: one(g, 60, 300, 4000)})
		return
	}
	g.add(Step{Do: "node.fill", Node: n, N: one(g, 0, 0, 60, 150, 300, 4000)}, Step{Do: "node.report", Node: n, Of: "A",
		Value: g.status()}, Step{Do: one(g, "calm", "quiet")})
}

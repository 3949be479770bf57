// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "fmt"

// replacements hands nodes over that do not become ready, and lets a remediator act on that.
func (g *generator) replacements() {
	r := g.rule()
	switch n := g.node(); g.IntN(8) {
	case 0:
		g.add(Step{Do: "node.role", Node: n})
	case 1:
		g.add(Step{Do: "node.maintain", Node: n, Value: one(g, "true", "")})
	case 2:
		g.add(Step{Do: "rule.edit", Rule: r, Value: fmt.Sprintf(`{"timeout":{"seconds":60,"action":"Replace","replace":%s}}`,
			g.replace(r, true))})
		if g.IntN(2) == 0 { // a node that is handed over may stay
			g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 61}, Step{Do: "quiet"}, Step{Do: "pass", N: 31}, Step{Do: "quiet"},
				one(g, Step{Do: "node.role", Node: n}, Step{Do: "node.maintain", Node: n, Value: "true"},
					Step{Do: "node.override", Node: n, Value: one(g, "Release", "Hold")}))
		}
	case 3:
		g.add(Step{Do: "pod.delete", Node: n, Pod: 1}, Step{Do: "pod.delete", Node: n, Pod: 2})
	case 4, 5:
		for n := 1; n <= g.nodes; n++ {
			g.add(Step{Do: "node.replace", Node: n, Value: g.pool()})
		}
	default:
		g.add(Step{Do: "pass", N: one(g, 61, 61, 700, 3600)}, Step{Do: "calm"})
	}
}

// register lets a node register, which Karpenter may have launched.
func (g *generator) register(n int) {
	s := Step{Do: "node.create", Node: n, Value: g.pool()}
	if g.karpenter && g.IntN(5) > 0 {
		s.Do, s.Of, s.N = "claim.launch", one(g, "", "", "", "unnamed", "ownerless", "forged"), g.node()
	}
	g.add(s)
}

// claims are what Karpenter and administrators do to NodeClaims, also while a rule hands the node over.
func (g *generator) claims() {
	switch n := g.node(); g.IntN(6) {
	case 0:
		g.add(Step{Do: "claim.delete", Node: n})
	case 1, 2:
		g.add(Step{Do: "claim.update", Node: n})
	case 3, 4:
		for n := 1; n <= g.nodes; n++ {
			g.add(Step{Do: "claim.finish", Node: n, Value: g.pool()})
		}
	default:
		g.add(Step{Do: "node.delete", Node: n}, Step{Do: "claim.delete", Node: n},
			Step{Do: "claim.finish", Node: n, Value: g.pool()})
	}
}

// replace says how a rule hands nodes over. An edit removes what another way needs.
func (g *generator) replace(rule int, edit bool) string {
	way, other := fmt.Sprintf(`"annotation":{"key":"example.com/replace-r%d"%s}%s`, rule,
		one(g, "", "", `,"value":"now"`), one(g, "", `,"method":"Annotation"`)), `,"method":null`
	if g.karpenter && g.IntN(4) > 0 {
		way, other = `"method":"NodeClaim"`, `,"annotation":null`
	}
	if !edit {
		other = ""
	}
	return fmt.Sprintf(`{"maxPerHour":%d,%s%s}`, one(g, 1, 1, 2, 20), way, other)
}

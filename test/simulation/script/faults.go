// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "fmt"

// fates lets writes meet faults. Something changes before, everything is delivered and all work is started, so that
// writes are under way.
func (g *generator) fates() {
	r := g.replica()
	if g.IntN(3) > 0 {
		g.reporters()
	}
	g.add(Step{Do: "begin", Replica: r})
	for range 1 + g.IntN(3) {
		g.fate(r)
	}
}

func (g *generator) fate(r int) {
	switch n := g.IntN(3); g.IntN(20) {
	case 0, 1, 2:
		g.add(Step{Do: "answer", Replica: r, N: n, Of: one(g, "applied, and the process is killed",
			"lost, and the process is killed")}, Step{Do: "up", Replica: r})
	case 3, 4, 5: // the write lands before or after the next process has looked
		g.add(Step{Do: "answer", Replica: r, N: n, Of: "under way, and the process is killed"}, Step{Do: "up", Replica: r})
		if g.IntN(2) == 0 {
			g.add(Step{Do: "settle", Replica: g.replica()})
		}
		g.add(Step{Do: "pass", N: one(g, 0, 1, 12, 30)}, Step{Do: "land"})
	case 6, 7, 8: // the next leader has counted, and its own writes are under way, or have been made
		g.add(Step{Do: "handover", Replica: 1 - r}, Step{Do: one(g, "begin", "begin", "begin", "settle"), Replica: 1 - r},
			Step{Do: "answer", Replica: r, N: n, Of: "answered"}, Step{Do: "answer", Replica: r, N: n, Of: "answered"},
			Step{Do: "settle", Replica: 1 - r}, Step{Do: "kill", Replica: r})
	case 9, 10: // an administrator changes the taints of a node meanwhile
		g.add(Step{Do: one(g, "node.taint", "node.untaint"), Node: g.node(), Value: "example.com/foreign:NoSchedule"},
			Step{Do: "answer", Replica: r, N: n, Of: "answered"})
	default:
		g.add(Step{Do: "answer", Replica: r, N: n, Of: one(g, "applied, but the answer is lost", "lost on its way",
			"applied twice", "refused with 409", "refused with 429", "refused with 500", "applied, and answered with 500")})
	}
}

// restarts are those of processes. The API server that answers their first lists may be behind.
func (g *generator) restarts() {
	s := Step{Do: one(g, "kill", "kill", "kill", "down", "up", "handover"), Replica: g.replica()}
	if s.Do == "kill" {
		s.N = one(g, 0, 0, 2, 5, 20)
	}
	g.add(s)
}

// watches cuts watches, also while events wait, and lets reads past the cache fail.
func (g *generator) watches() {
	r := g.replica()
	switch g.IntN(3) {
	case 0:
		g.reporters()
		g.add(Step{Do: "cut", Replica: r, Of: g.kind(), Value: one(g, "", "resumes")})
	case 1:
		g.add(Step{Do: "cut", Replica: r, Of: g.kind(), Value: one(g, "", "resumes")})
	default:
		g.add(Step{Do: "unread", Replica: r, N: one(g, 1, 1, 2, 5)})
	}
}

// races let something change between what the operator has read and what it writes.
func (g *generator) races() {
	r, of := g.rule(), one(g, "conditions", "nodes", "marks", "marks")
	if g.karpenter && g.IntN(3) > 0 {
		of = one(g, "marks", "nodeclaims", "nodeclaims")
	}
	switch of {
	case "conditions":
		g.add(Step{Do: "rule.edit", Rule: r, Value: `{"publish":{"conditionType":"example.com/P"},"suspend":null}`})
	case "nodes":
		g.reporters()
	default: // a node that never was ready is handed over
		n := g.node()
		way := fmt.Sprintf(`"annotation":{"key":"example.com/replace-r%d"},"method":"Annotation"`, r)
		if of == "nodeclaims" {
			way = `"annotation":null,"method":"NodeClaim"`
		}
		g.add(Step{Do: "rule.edit", Rule: r, Value: plainly + `,"timeout":{"seconds":60,"appearSeconds":null,` +
			`"action":"Replace","replace":{"maxPerHour":20,` + way + `}}}`}, Step{Do: "claim.delete", Node: n},
			Step{Do: "node.delete", Node: n}, Step{Do: "claim.finish", Node: n, Value: "a"})
		g.register(n)
		g.add(Step{Do: "calm"}, Step{Do: "pass", N: 61})
	}
	for r := range g.script.Replicas {
		g.add(Step{Do: "brink", Replica: r, Of: of})
		g.interferes(of)
	}
	g.add(Step{Do: one(g, "calm", "quiet")})
	if of == "marks" {
		g.add(Step{Do: one(g, "node.role", "node.maintain"), Node: Concerned, Value: "true"}, Step{Do: "quiet"})
	}
}

// interferes changes what a write under way is about.
func (g *generator) interferes(of string) {
	switch {
	case of == "nodeclaims" && g.IntN(2) == 0:
		g.add(Step{Do: "claim.update", Node: Concerned})
	case of == "nodeclaims":
		g.add(Step{Do: "claim.delete", Node: Concerned}, Step{Do: "claim.finish", Node: Concerned, Value: g.pool()})
	case of == "conditions" && g.IntN(4) > 0:
		g.add(Step{Do: "node.report", Node: Concerned, Of: "P", Value: g.status()})
	case of == "marks" && g.IntN(3) > 0:
		g.add(one(g, Step{Do: "node.role", Node: Concerned}, Step{Do: "node.maintain", Node: Concerned, Value: "true"},
			Step{Do: "node.override", Node: Concerned, Value: one(g, "Release", "Hold")}))
	default:
		g.add(Step{Do: "node.delete", Node: Concerned}, Step{Do: "node.create", Node: Concerned, Value: g.pool()})
	}
}

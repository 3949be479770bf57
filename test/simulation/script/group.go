// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

func init() {
	maps.Copy(words, map[string]string{
		"group.copy":     "all replicas are stopped, and each rule is continued by one of another API group",
		"group.handover": "the rules for admission name the new rules; from now on replicas start",
	})
}

// group lets the API group change in a part of the stories. It draws for itself, so that the other stories stay as they
// were. A change does not begin in an outage, as when endpoints are kept.
func (g *generator) group(seed uint64) {
	own := &generator{Rand: rand.New(rand.NewPCG(seed, 7)), nodes: g.nodes, rules: g.rules, karpenter: g.karpenter,
		script: &Script{Replicas: g.script.Replicas}}
	own.limiter = own
	if own.IntN(6) > 0 || g.script.Beside || g.script.Endpoints {
		return
	}
	for range 1 + own.IntN(2) {
		own.script.Steps = nil
		own.changesGroup()
		late := len(g.script.Steps)/2 + own.IntN(len(g.script.Steps)/2) // before, the rules are as others have made them
		g.script.Steps = slices.Insert(g.script.Steps, late, own.script.Steps...)
	}
}

// changesGroup changes the API group. Nodes register and report meanwhile, the next processes are killed, and another
// replica leads.
func (g *generator) changesGroup() {
	r := g.rule()
	if g.IntN(3) > 0 {
		g.three(r)
	}
	g.add(Step{Do: one(g, "calm", "quiet", "quiet")})
	if g.IntN(3) == 0 { // writes are under way when the former processes end
		g.reporters()
		g.add(Step{Do: "begin", Replica: g.replica()}, Step{Do: "answer", Replica: g.replica(),
			Of: one(g, "under way, and the process is killed", "applied, and the process is killed")})
	}
	g.add(Step{Do: "group.copy"})
	g.meanwhile()
	g.add(Step{Do: "group.handover"})
	g.meanwhile()
	for range 1 + g.IntN(3) {
		r := g.replica()
		g.add(Step{Do: one(g, "up", "up", "kill"), Replica: r, N: one(g, 0, 5, 20)})
		switch g.IntN(5) {
		case 0:
			g.add(Step{Do: "begin", Replica: r})
			g.fate(r)
		case 1:
			g.add(Step{Do: "brink", Replica: r, Of: one(g, "nodes", "nodes", "nodereadinessrules")},
				Step{Do: "answer", Replica: r, Of: "answered"})
			g.meanwhile()
			g.add(Step{Do: one(g, "kill", "handover"), Replica: g.replica()})
		case 2:
			for range 3 + g.IntN(10) {
				g.machinery()
			}
		default:
			g.add(Step{Do: one(g, "calm", "quiet", "settle"), Replica: r})
		}
	}
	for r := range g.script.Replicas {
		g.add(Step{Do: "up", Replica: r})
	}
	g.add(Step{Do: "quiet"})
	g.meanwhile()
	g.add(Step{Do: "quiet"})
}

// three lets there be nodes in service, held new ones, and ones that have become unready, maybe more than the limit.
func (g *generator) three(r int) {
	g.add(Step{Do: "rule.create", Rule: r, Value: g.spec(r)}, Step{Do: "rule.edit", Rule: r, Value: fmt.Sprintf(
		`{"suspend":null,"dryRun":null,"requirements":null,"conditionPolicy":null,"limits":null,"maxUnavailable":%s,`+
			`"conditions":[{"type":"example.com/A","requiredStatus":"True"}],"timeout":null,"enforcementMode":%q,`+
			`"nodeSelector":{"matchLabels":null,"matchExpressions":[{"key":"example.com/pool","operator":"Exists"}]}}`,
		one(g, "null", "1", "1"), one(g, "continuous", "continuous", "bootstrap-only"))})
	for n := 1; n <= g.nodes; n++ {
		g.add(Step{Do: "node.report", Node: n, Of: "A", Value: "True"})
	}
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: one(g, 1, 12, 61)}, Step{Do: "quiet"})
	for _, n := range g.Perm(g.nodes) {
		switch g.IntN(3) {
		case 0:
			g.add(Step{Do: "node.delete", Node: n + 1})
			g.register(n + 1)
		case 1:
			g.add(Step{Do: "node.report", Node: n + 1, Of: "A", Value: "False"})
		}
	}
}

// meanwhile is what happens to nodes whether or not the operator runs.
func (g *generator) meanwhile() {
	for range g.IntN(4) {
		switch n := g.node(); g.IntN(8) {
		case 0:
			g.register(n)
		case 1:
			g.add(Step{Do: "node.delete", Node: n})
			g.register(n)
		case 2:
			g.add(Step{Do: "node.label", Node: n, Value: g.pool()})
		case 3:
			g.reboots()
		case 4:
			g.time()
		case 5:
			g.people()
		default:
			g.add(Step{Do: "node.report", Node: n, Of: "A", Value: g.status()})
		}
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"math/rand/v2"
)

// endpoints lets the links of many nodes be cut at once, or of a single one, under rules that keep endpoints, in a part
// of the stories. It draws for itself, so that the other stories stay as they were.
func (g *generator) endpoints(seed uint64) {
	own := &generator{Rand: rand.New(rand.NewPCG(seed, 5)), nodes: g.nodes, rules: g.rules,
		script: &Script{Replicas: g.script.Replicas}}
	own.limiter = own
	if own.IntN(6) > 0 {
		return
	}
	g.script.Endpoints, g.script.Webhooks, g.script.Lag = true, true, max(g.script.Lag, one(own, 0, 0, 3))
	for range 1 + own.IntN(2) {
		own.script.Steps = nil
		own.links()
		g.insert(own)
	}
}

// links lets nodes be lost under a rule that keeps endpoints.
func (g *generator) links() {
	for r := range g.script.Replicas {
		g.add(Step{Do: "up", Replica: r})
	}
	r, hold := g.rule(), one(g, 20, 60, 60, 600)
	g.add(Step{Do: "crd", Value: "ours"}, Step{Do: "evidence", Value: "allowed"},
		Step{Do: "rule.create", Rule: r, Value: g.spec(r)}, Step{Do: "rule.edit", Rule: r, Value: fmt.Sprintf(
			`{"evictionGuard":{"maxHoldSeconds":%d,"endpoints":{"outagePercent":%d,"maxHoldSeconds":%d}},"suspend":null,`+
				`"dryRun":null,"requirements":null,"conditions":[{"type":"Ready","requiredStatus":"True"}],"conditionPolicy":null,`+
				`"nodeSelector":{"matchLabels":null,"matchExpressions":[{"key":"example.com/pool","operator":"Exists"}]},`+
				`"enforcementMode":"continuous",%s}`, one(g, hold, 600), one(g, 50, 50, 30, 100), hold, g.linkLimits())})
	for n := 1; n <= g.nodes; n++ {
		g.add(Step{Do: "node.create", Node: n, Value: "a"}, Step{Do: "link.back", Node: n},
			Step{Do: "node.override", Node: n}, Step{Do: "pod.create", Node: n, Pod: 1, Value: "x", Of: "tolerant"},
			Step{Do: "pod.ready", Node: n, Pod: 1, Value: "true"})
	}
	g.add(Step{Do: "live", N: 12}, Step{Do: "quiet"})
	switch g.IntN(5) {
	case 0, 1:
		g.deaths(g.Perm(g.nodes)[:1+g.IntN(min(2, g.nodes))])
	default:
		g.outage(r, hold)
	}
	for n := 1; n <= g.nodes; n++ {
		g.add(Step{Do: "link.back", Node: n})
	}
	g.add(Step{Do: "live", N: 5}, Step{Do: "quiet"})
}

// deaths are those of nodes one after the other, which are no outage.
func (g *generator) deaths(nodes []int) {
	for _, n := range nodes {
		g.add(Step{Do: "link.cut", Node: n + 1}, Step{Do: "live", N: 25}, Step{Do: "quiet"})
		if g.IntN(2) == 0 {
			g.add(Step{Do: "slow", Replica: g.replica(), N: one(g, 5, 15, 25)})
		}
		if g.IntN(4) == 0 {
			g.add(Step{Do: "handover", Replica: g.replica()})
		}
		g.add(Step{Do: one(g, "live", "live", "pass"), N: one(g, 25, 35)})
		g.decision()
		g.add(Step{Do: "live", N: one(g, 1, 30)}, Step{Do: "quiet"})
	}
}

// leads lets a replica lead, and the other one have noticed.
func (g *generator) leads(r int) {
	g.add(Step{Do: "handover", Replica: r}, Step{Do: "kill", Replica: 1 - r}, Step{Do: "quiet"})
}

// successor lets one replica decide about nodes that are lost, and another one lead that has not heard of them.
func (g *generator) successor(r int) {
	g.add(Step{Do: "settle", Replica: r}, Step{Do: "handover", Replica: 1 - r})
	for handler := range 6 {
		g.add(Step{Do: "notify", Replica: 1 - r, Of: "nodes", Rule: handler, N: -1})
	}
	for range 30 {
		g.add(Step{Do: "work", Replica: 1 - r}, Step{Do: "answer", Replica: 1 - r, Of: "answered"})
	}
}

// decision lets the operator decide about nodes that are lost. Its writes may meet faults.
func (g *generator) decision() {
	if r := g.replica(); g.IntN(2) == 0 {
		g.add(Step{Do: "begin", Replica: r})
		for range 1 + g.IntN(2) {
			g.fate(r)
		}
	}
	g.add(Step{Do: "live", N: 6}, Step{Do: "quiet"})
}

// outage cuts the links of most nodes at about the same time. Some come back before the others.
func (g *generator) outage(r, hold int) {
	nodes := g.Perm(g.nodes)[:max(1, g.nodes-g.IntN(2)*g.IntN(g.nodes))]
	leader, time := g.replica(), one(g, "live", "live", "pass")
	succeeded := g.script.Replicas > 1 && g.IntN(2) == 0
	if succeeded {
		time = "pass"
		g.leads(leader)
	} else if g.IntN(5) == 0 { // no operator runs
		for r := range g.script.Replicas {
			g.add(Step{Do: "down", Replica: r})
		}
		g.add(Step{Do: "pass", N: one(g, 1, 30, hold)})
	}
	for _, n := range nodes {
		g.add(Step{Do: "link.cut", Node: n + 1})
		if g.IntN(3) == 0 {
			g.add(Step{Do: "live", N: one(g, 1, 3)})
		}
	}
	g.add(Step{Do: "live", N: 25}, Step{Do: "quiet"}, Step{Do: time, N: one(g, 25, 35)})
	for r := range g.script.Replicas {
		g.add(Step{Do: "up", Replica: r})
	}
	if succeeded {
		g.successor(leader)
	} else {
		g.decision()
	}
	switch back := nodes[:max(g.IntN(len(nodes)), g.IntN(len(nodes)))]; g.IntN(6) {
	case 0:
		g.add(one(g, Step{Do: "rule.delete", Rule: r}, Step{Do: "rule.edit", Rule: r, Value: `{"evictionGuard":null}`},
			Step{Do: "rule.edit", Rule: r, Value: `{"suspend":true}`}, Step{Do: "kept.delete"},
			Step{Do: "node.override", Node: nodes[0] + 1, Value: "Release"}))
	case 1: // another one leads, and has not heard of everything
		next := g.replica()
		g.add(Step{Do: "handover", Replica: next})
		for range 3 {
			g.add(Step{Do: "work", Replica: next, N: g.IntN(8)}, Step{Do: "answer", Replica: next, Of: "answered"})
		}
	default:
		if hold == 60 && len(back)%2 == 0 {
			g.add(Step{Do: "rule.edit", Rule: r,
				Value: `{"evictionGuard":{"maxHoldSeconds":900,"endpoints":{"maxHoldSeconds":900}}}`})
		}
		for _, n := range back {
			g.add(Step{Do: "link.back", Node: n + 1})
		}
	}
	g.add(Step{Do: "live", N: one(g, 5, 12)}, Step{Do: "quiet"}, Step{Do: "live", N: one(g, 20, hold)}, Step{Do: "quiet"},
		Step{Do: "live", N: one(g, 12, hold)}, Step{Do: "quiet"})
}

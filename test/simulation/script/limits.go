// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"math/rand/v2"
)

// rackLimit and zoneLimit are limits by the two labels that nodes of stories have.
const (
	rackLimit = `"per":"example.com/rack"}`
	zoneLimit = `"per":"topology.kubernetes.io/zone"}`
)

// queues lets nodes wait for room under several limits, in a part of the stories. It draws for itself, so that the
// other stories stay as they were.
func (g *generator) queues(seed uint64) {
	own := &generator{Rand: rand.New(rand.NewPCG(seed, 6)), nodes: 4 + int(seed%3), rules: g.rules,
		script: &Script{Replicas: g.script.Replicas}}
	if own.IntN(5) > 0 {
		return
	}
	own.queue()
	g.insert(own)
}

// severalLimits are limits of all nodes, by domains and by rates.
func (g *generator) severalLimits() string {
	return one(g, `[{"max":1},{"max":1,`+rackLimit+`]`, `[{"max":2},{"max":1,`+rackLimit+`,{"max":1,`+zoneLimit+`]`,
		`[{"max":3},{"maxDomains":2,`+zoneLimit+`,{"max":1,`+rackLimit+`]`,
		`[{"maxDomains":1,`+zoneLimit+`,{"max":2,`+rackLimit+`]`,
		`[{"max":"50%"},{"max":1,"withinSeconds":60},{"max":1,`+rackLimit+`]`,
		`[{"max":3},{"max":1,"withinSeconds":60}]`, `[{"max":4},{"max":1,"withinSeconds":60},{"max":2,`+zoneLimit+`]`,
		`[{"max":4},{"max":2,"withinSeconds":60},{"max":3,"withinSeconds":600},{"max":2,`+rackLimit+`]`,
		`[{"max":"40%"},{"max":"50%",`+zoneLimit+`]`)
}

// queue lets nodes become unready one after the other under a rule with several limits, which no other actor touches.
// Then there is room for some of them, while something else happens to the others.
func (g *generator) queue() {
	goes, limits, effect := g.IntN(4), g.severalLimits(), g.effect()
	if goes <= asksAgain {
		effect = taintOfQueue
	}
	switch goes {
	case isLate:
		limits = one(g, `[{"max":3},{"max":1,"withinSeconds":60}]`, `[{"max":"100%"},{"max":2,"withinSeconds":60}]`)
	case isRefused, asksAgain:
		limits = one(g, `[{"max":1}]`, `[{"max":1}]`, limits)
	}
	for r := range g.script.Replicas {
		g.add(Step{Do: "up", Replica: r})
	}
	g.add(Step{Do: "crd", Value: "ours"}, Step{Do: "evidence", Value: "allowed"},
		Step{Do: "rule.create", Rule: MaxRules + 1, Value: `{"nodeSelector":{"matchExpressions":[{"key":"example.com/pool",` +
			`"operator":"Exists"}]},` + effect + `,"enforcementMode":"continuous",` +
			`"conditions":[{"type":"example.com/A","requiredStatus":"True"}],"limits":` + limits + `}`})
	later := g.nodes == 5 // the nodes are there when the rule is put in force
	if later {
		g.add(Step{Do: "rule.edit", Rule: MaxRules + 1, Value: `{"dryRun":true}`})
	}
	for n := 1; n <= g.nodes; n++ {
		g.add(Step{Do: "node.create", Node: n, Value: "a"}, Step{Do: "node.override", Node: n},
			Step{Do: "node.cordon", Node: n, Value: "false"}, Step{Do: "node.rack", Node: n, Value: g.rack()},
			Step{Do: "node.zone", Node: n, Value: g.zone()}, g.says(n, "A", "True"))
	}
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 12}, Step{Do: "quiet"})
	if later {
		g.add(Step{Do: "rule.edit", Rule: MaxRules + 1, Value: `{"dryRun":null}`}, Step{Do: "quiet"})
	}
	order := g.Perm(g.nodes)
	for _, n := range order {
		g.add(g.says(n+1, "A", "False"), Step{Do: "pass", N: one(g, 1, 3, 6)})
		if g.IntN(3) > 0 {
			g.add(Step{Do: "quiet"})
		}
	}
	g.add(Step{Do: "quiet"})
	g.turn(goes, order[0]+1, order[1]+1)
	for range 4 + g.IntN(5) {
		g.add(Step{Do: "quiet"})
		g.proceed()
	}
	g.add(Step{Do: "quiet"})
}

const taintOfQueue = `"taint":{"key":"example.com/t5","effect":"NoSchedule"}`

// effect is what a rule does to nodes: it holds them, publishes its verdict, or both.
func (g *generator) effect() string {
	const publish = `"publish":{"conditionType":"example.com/M"}`
	return one(g, taintOfQueue, taintOfQueue, taintOfQueue+","+publish, publish)
}

// What may happen to the node that has waited for longest, when it is its turn.
const (
	isLate    = iota // its claim under a rate is lost, after the time in which it may be made
	isRefused        // its claim is refused
	asksAgain        // another waiting node is looked at before it
)

// turn lets there be room for the node that has waited for longest. In most stories, the first node is held then.
func (g *generator) turn(goes, first, next int) {
	brink := func() {
		for r := range g.script.Replicas {
			g.add(Step{Do: "brink", Replica: r, Of: "nodes"})
		}
	}
	answer := func(fate string) {
		for r := range g.script.Replicas {
			g.add(Step{Do: "answer", Replica: r, Of: fate})
		}
	}
	switch goes {
	case isLate:
		g.add(Step{Do: "pass", N: one(g, 91, 95)})
		brink()
		g.add(Step{Do: "pass", N: one(g, 35, 50)})
		answer("lost on its way")
		g.add(Step{Do: "quiet"}, Step{Do: "live", N: one(g, 61, 100)})
	case isRefused:
		g.add(Step{Do: "node.refuse", Node: next, Value: "true"}, g.says(first, "A", "True"), Step{Do: "live", N: 5},
			Step{Do: "quiet"}, Step{Do: "node.refuse", Node: next})
	case asksAgain:
		g.add(g.says(first, "A", "True"))
		brink()
		for n := 1; n <= g.nodes; n++ {
			g.add(g.says(n, "B", g.status()))
		}
		answer("answered")
	}
	g.add(Step{Do: "quiet"})
}

func (g *generator) zone() string { return one(g, "x", "y", "") }

func (g *generator) says(n int, condition, status string) Step {
	return Step{Do: "node.report", Node: n, Of: condition, Value: status}
}

// stir lets the operator look at most nodes.
func (g *generator) stir() {
	for n := 1; n <= g.nodes; n++ {
		if g.IntN(4) > 0 {
			g.add(g.says(n, "B", g.status()))
		}
	}
}

// proceed lets there be room for nodes that wait, or what may keep them from being held in turn.
func (g *generator) proceed() {
	n, r := g.node(), g.replica()
	switch g.IntN(16) {
	case 0, 1, 9, 10, 11: // some are ready
		for range 1 + g.IntN(3) {
			g.add(g.says(g.node(), "A", "True"))
		}
		g.stir()
		g.add(Step{Do: one(g, "calm", "begin", "quiet"), Replica: r})
	case 2, 3: // the times of claims are written, and not all have been made
		g.add(Step{Do: "pass", N: one(g, 61, 91, 95, 630)}, Step{Do: "brink", Replica: r, Of: "nodereadinessrules"},
			Step{Do: "answer", Replica: r, Of: "answered"})
		g.stir()
		g.add(Step{Do: "quiet"})
	case 4: // a claim is made late, or not at all
		g.add(Step{Do: "pass", N: one(g, 61, 91, 95, 630)}, Step{Do: "brink", Replica: r, Of: "nodes"})
		for range 1 + g.IntN(2) {
			g.add(Step{Do: "answer", Replica: r, Of: one(g, "lost on its way", "refused with 500", "applied, but the answer is "+
				"lost", "refused with 409")})
		}
		g.add(Step{Do: "pass", N: one(g, 1, 29, 35, 50)}, Step{Do: "quiet"}, Step{Do: "pass", N: one(g, 30, 45, 61)})
	case 5:
		g.add(Step{Do: "node.rack", Node: n, Value: g.rack()}, Step{Do: "node.zone", Node: n, Value: g.zone()})
	case 6: // the others do not wait for one that cannot be written
		g.add(Step{Do: "node.refuse", Node: n, Value: "true"}, g.says(g.node(), "A", "True"),
			Step{Do: "live", N: one(g, 5, 30, 100)}, Step{Do: "quiet"}, Step{Do: "node.refuse", Node: n},
			Step{Do: "live", N: 61})
	case 7:
		g.add(Step{Do: one(g, "kill", "handover"), Replica: r}, Step{Do: one(g, "settle", "begin"), Replica: r})
	case 12: // a new node is not ready
		g.add(Step{Do: "node.delete", Node: n}, Step{Do: "node.create", Node: n, Value: "a"},
			Step{Do: "node.rack", Node: n, Value: g.rack()}, Step{Do: "node.zone", Node: n, Value: g.zone()},
			g.says(n, "A", "False"), Step{Do: "quiet"})
	case 13: // the rule is not in force for a while
		g.add(Step{Do: "rule.edit", Rule: MaxRules + 1, Value: one(g, `{"suspend":true}`, `{"suspend":true}`,
			`{"dryRun":true}`)}, Step{Do: one(g, "calm", "quiet")}, Step{Do: "pass", N: one(g, 1, 5, 31)},
			Step{Do: one(g, "calm", "quiet")}, Step{Do: "rule.edit", Rule: MaxRules + 1, Value: `{"suspend":null,` +
				`"dryRun":null}`}, Step{Do: "quiet"}, Step{Do: "pass", N: one(g, 1, 5, 31)}, Step{Do: "quiet"})
	case 14: // the times of claims are not written, or it is not known whether they are
		g.add(g.says(n, "A", "False"), Step{Do: "pass", N: one(g, 1, 61, 91, 630)},
			Step{Do: "brink", Replica: r, Of: "nodereadinessrules"}, Step{Do: "answer", Replica: r, Of: one(g,
				"lost on its way", "refused with 500", "applied, but the answer is lost", "refused with 409")},
			Step{Do: one(g, "calm", "settle", "quiet"), Replica: r}, Step{Do: "pass", N: one(g, 1, 5, 31)}, Step{Do: "quiet"})
	default:
		g.add(g.says(n, "A", "False"), Step{Do: "pass", N: one(g, 1, 5, 30)})
	}
}

// linkLimits are the limits of a rule that keeps endpoints: mostly none.
func (g *generator) linkLimits() string {
	return one(g, `"limits":null,"maxUnavailable":null`, `"limits":null,"maxUnavailable":null`,
		`"limits":null,"maxUnavailable":1`, fmt.Sprintf(`"maxUnavailable":null,"limits":%s`, g.severalLimits()))
}

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

// again lets a rule with limits be edited, or be put in force again, at the end of a part of the stories. Or it ends
// them by a scene that would move the other steps elsewhere. It draws for itself, too.
func (g *generator) again(seed uint64) {
	own := &generator{Rand: rand.New(rand.NewPCG(seed, 9)), nodes: 4 + int(seed%3), rules: g.rules,
		script: &Script{Replicas: g.script.Replicas}}
	act := map[int]func(*generator){0: (*generator).lower, 1: (*generator).lower, 2: (*generator).begins,
		3: (*generator).begins, 4: (*generator).resumes, 5: (*generator).overtakes, 6: (*generator).prunes,
		7: (*generator).overlaid}[own.IntN(36)]
	if act == nil {
		return
	}
	for r := range own.script.Replicas {
		own.add(Step{Do: "up", Replica: r})
	}
	act(own)
	own.add(Step{Do: "quiet"})
	g.script.Steps = append(g.script.Steps, own.script.Steps...)
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
	g.limited(effect, limits)
	later := g.nodes == 5 // the nodes are there when the rule is put in force
	if later {
		g.add(Step{Do: "rule.edit", Rule: MaxRules + 1, Value: `{"dryRun":true}`})
	}
	for n := 1; n <= g.nodes; n++ {
		g.enters(n, g.rack(), g.zone())
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

// limited creates the rule with limits, which no other actor touches.
func (g *generator) limited(effect, limits string) {
	g.add(Step{Do: "crd", Value: "ours"}, Step{Do: "evidence", Value: "allowed"},
		Step{Do: "rule.create", Rule: MaxRules + 1, Value: `{"nodeSelector":{"matchExpressions":[{"key":"example.com/pool",` +
			`"operator":"Exists"}]},` + effect + `,"enforcementMode":"continuous",` +
			`"conditions":[{"type":"example.com/A","requiredStatus":"True"}],"limits":` + limits + `}`})
}

// enters lets there be a node that is ready, and that only its limits keep from being held.
func (g *generator) enters(n int, rack, zone string) {
	g.add(Step{Do: "node.create", Node: n, Value: "a"}, Step{Do: "node.override", Node: n},
		Step{Do: "node.cordon", Node: n, Value: "false"}, Step{Do: "node.rack", Node: n, Value: rack},
		Step{Do: "node.zone", Node: n, Value: zone}, g.says(n, "A", "True"))
}

// lower lets nodes of two zones or more be held, before an edit allows fewer. Others become unready then.
func (g *generator) lower() {
	limits := func(most int) string {
		return fmt.Sprintf(`[{"maxDomains":%d,%s%s`, most, zoneLimit, one(g, "]", "]", `,{"max":5}]`))
	}
	edit := func(most int) { g.inForceWith(limits(most)) }
	g.limited(taintOfQueue, limits(3))
	edit(3)
	zones := []string{"x", "y", "", "x", "y", "x"}
	for n := 1; n <= g.nodes; n++ {
		g.enters(n, g.rack(), zones[n-1])
	}
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 12}, Step{Do: "quiet"})
	held := 2 + g.IntN(2)
	for n := 1; n <= held; n++ {
		g.add(g.says(n, "A", "False"), Step{Do: "quiet"})
	}
	edit(g.IntN(held))
	r := g.replica()
	g.add(Step{Do: one(g, "calm", "quiet", "begin", "kill", "handover"), Replica: r}, Step{Do: "up", Replica: r})
	for _, n := range g.Perm(g.nodes) {
		g.add(g.says(n+1, "A", "False"), Step{Do: "pass", N: one(g, 1, 3)})
		if g.IntN(3) > 0 {
			g.add(Step{Do: "quiet"})
		}
	}
	for range 2 {
		g.add(Step{Do: "quiet"}, g.says(1+g.IntN(held), "A", "True"))
		g.stir()
	}
	g.add(Step{Do: "quiet"})
	edit(2)
}

// inForceWith puts the rule in force with other limits.
func (g *generator) inForceWith(limits string) {
	g.add(Step{Do: "rule.edit", Rule: MaxRules + 1,
		Value: `{"suspend":null,"dryRun":null,"maxUnavailable":null,"limits":` + limits + `}`})
}

// alone deletes the other rules, so that only those of the scene decide about its nodes.
func (g *generator) alone() {
	for r := 1; r <= MaxRules; r++ {
		g.add(Step{Do: "rule.delete", Rule: r})
	}
	g.add(Step{Do: "rule.delete", Rule: sceneRule}, Step{Do: "rule.delete", Rule: otherRule}, Step{Do: "quiet"})
}

// begins puts the rule in force while nodes are not ready. Others join afterwards.
func (g *generator) begins() {
	const limits = `[{"max":1}]`
	out := one(g, `{"suspend":true}`, `{"dryRun":true}`)
	g.alone()
	g.limited(taintOfQueue, limits)
	g.add(Step{Do: "rule.edit", Rule: MaxRules + 1, Value: out})
	for n := 2; n <= g.nodes; n++ {
		g.enters(n, g.rack(), g.zone())
		if n < 5 {
			g.add(g.says(n, "A", "False"))
		}
	}
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: one(g, 12, 30)})
	g.inForceWith(limits)
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: one(g, 2, 12)}, Step{Do: "node.delete", Node: 1})
	g.enters(1, g.rack(), g.zone())
	g.add(g.says(1, "A", "False"), Step{Do: "quiet"}, Step{Do: one(g, "quiet", "kill", "handover"), Replica: g.replica()})
}

// resumes suspends the rule, removes taints by hand meanwhile, and resumes it with a smaller limit.
func (g *generator) resumes() {
	g.alone()
	g.limited(taintOfQueue, `[{"max":3}]`)
	g.inForceWith(`[{"max":3}]`)
	for n := 1; n <= g.nodes; n++ {
		g.enters(n, g.rack(), g.zone())
	}
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 12}, Step{Do: "quiet"})
	for n := 1; n <= 3; n++ {
		g.add(g.says(n, "A", "False"))
	}
	g.add(Step{Do: "quiet"}, Step{Do: "rule.edit", Rule: MaxRules + 1, Value: `{"suspend":true}`}, Step{Do: "quiet"})
	for n := 1; n <= 2; n++ {
		g.add(Step{Do: "node.untaint", Node: n, Value: "example.com/t5:NoSchedule"})
	}
	g.add(Step{Do: "pass", N: one(g, 2, 12)})
	g.inForceWith(one(g, `[{"max":1}]`, `[{"max":2}]`, `[{"max":0}]`))
}

// overtakes lets there be room for the node that has waited for longest, while one of another rack is looked at first.
func (g *generator) overtakes() {
	limits := fmt.Sprintf(`[{"max":1},{"max":%d,%s]`, one(g, 1, 2), rackLimit)
	g.alone()
	g.add(Step{Do: "rule.delete", Rule: MaxRules + 1})
	for n := 1; n <= MaxNodes; n++ {
		g.gone(n)
	}
	g.add(Step{Do: "quiet"})
	g.limited(taintOfQueue, limits)
	for n, rack := range []string{"a", "b", ""} {
		g.enters(n+1, rack, "x")
	}
	g.add(Step{Do: "quiet"})
	g.passes(12)
	for _, n := range []int{1, 3, 2} {
		g.then(g.says(n, "A", "False"))
		g.passes(3)
	}
	g.add(g.says(1, "A", "True"), g.says(2, "B", "True"), Step{Do: "calm"})
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

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "fmt"

// details are scenes of which one value, time or number tells whether the operator does the right thing.
func (g *generator) details() {
	if g.last = g.IntN(8) == 0; g.last { // what is judged only when everything has come to rest
		g.refutes(g.node())
		return
	}
	for range 2 {
		one(g, g.announces, g.several, g.several, g.mute, g.twice, g.paces, g.outlasts, g.adorned, g.rereads,
			g.arrives)(g.node())
	}
	g.add(Step{Do: "rule.delete", Rule: sceneRule})
}

// announces is a node that is released twice by a rule with completionAnnotation.
func (g *generator) announces(n int) {
	g.inForce(taintOfScene + `,"completionAnnotation":"example.com/completed",` + one(g, "", "",
		`"rearmOn":["Reboot"],`) + requiresA)
	g.fresh(n)
	g.then(g.says(n, "A", "True"))
	g.passes(2)
	g.then(g.says(n, "A", "False"))
	g.passes(one(g, 2, 61))
	g.then(g.says(n, "A", "True"))
}

// several are two conditions that change one after the other. The operator may restart after that.
func (g *generator) several(n int) {
	g.inForce(taintOfScene + `,"stabilization":{"readySeconds":30,"unreadySeconds":30},` + one(g, "", "", "",
		`"conditionPolicy":"anyOf",`, `"conditionPolicy":"anyOf",`) + `"conditions":[{"type":"example.com/A",` +
		`"requiredStatus":"True"},{"type":"example.com/B","requiredStatus":"True"}]`)
	g.fresh(n)
	g.add(g.says(n, "A", "False"))
	g.then(g.says(n, "B", "False"))
	for _, status := range []string{"True", "False"} {
		first, second := "A", "B"
		if g.IntN(2) == 0 {
			first, second = second, first
		}
		g.then(g.says(n, first, status))
		g.passes(20)
		g.then(g.says(n, second, status))
		if g.IntN(2) == 0 {
			g.each(Step{Do: "kill"})
		}
		g.passes(14, 20)
	}
}

// mute is a condition that is reported without a heartbeat, on a node that reboots.
func (g *generator) mute(n int) {
	g.inForce(taintOfScene + `,"rearmOn":["Reboot"],` + requiresA)
	g.fresh(n)
	says := g.says(n, "A", "True")
	says.Pod = 1
	g.then(says)
	g.passes(12)
	g.then(Step{Do: "node.reboot", Node: n})
	g.passes(one(g, 5, 30))
	g.then(says, g.says(n, "A", "True"))
}

// poolOfScene selects nodes that no other actor creates.
const poolOfScene = `"nodeSelector":{"matchLabels":{"example.com/pool":"s"}}`

// apart lets a new node register in a pool.
func (g *generator) apart(n int, pool string) {
	g.gone(n)
	g.add(Step{Do: "node.create", Node: n, Value: pool}, Step{Do: "node.override", Node: n})
}

// twice are two held nodes that are deleted half an hour apart. Their places are in use for an hour after the second
// one.
func (g *generator) twice(n int) {
	g.inForce(taintOfScene + `,` + poolOfScene + `,"maxUnavailable":2,` + requiresA)
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 2})
	other := g.next(n)
	for _, n := range []int{n, other} {
		g.apart(n, "s")
		g.add(g.says(n, "A", "True"))
	}
	g.add(Step{Do: "quiet"})
	g.passes(1)
	g.then(g.says(n, "A", "False"), g.says(other, "A", "False"))
	g.passes(1)
	g.then(Step{Do: "node.delete", Node: n})
	g.passes(1900)
	g.then(Step{Do: "node.delete", Node: other})
	g.passes(1750)
}

// paces are two nodes of which a rule may hand over one within an hour.
func (g *generator) paces(n int) {
	g.inForce(taintOfScene + `,` + poolOfScene + `,` + requiresA + `,"timeout":{"seconds":60,"action":"Replace",` +
		`"replace":{"maxPerHour":1,` + byAnnotation + `}}`)
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 2})
	g.apart(n, "s")
	g.apart(g.next(n), "s")
	g.add(Step{Do: "quiet"})
	g.passes(61, 31, 1900, 1750, 31)
}

// requires puts another rule in force, which requires the one of the scene.
func (g *generator) requires(effect string) {
	g.add(Step{Do: "rule.create", Rule: otherRule, Value: fmt.Sprintf(`{%s,"enforcementMode":"continuous",%s,`+
		`"requirements":[{"name":"other","ruleSatisfied":{"name":"r%d"}}]}`, allPools, effect, sceneRule)})
}

const taintOfOther = `"taint":{"key":"example.com/t7","effect":"NoSchedule"}`

// outlasts is a node that is ready for long enough while an override holds or releases it.
func (g *generator) outlasts(n int) {
	g.inForce(taintOfScene + `,"stabilization":{"readySeconds":30},` + requiresA)
	g.requires(taintOfOther)
	g.fresh(n)
	g.then(g.says(n, "A", "False"), Step{Do: "node.override", Node: n, Value: one(g, "Hold", "Hold", "Release")},
		g.says(n, "A", "True"))
	g.passes(20, 14)
	g.then(Step{Do: "node.override", Node: n}, Step{Do: "rule.delete", Rule: otherRule})
}

// refutes is a node with an override that is not ready under a rule, which another one requires that publishes.
func (g *generator) refutes(n int) {
	g.inForce(taintOfScene + `,` + requiresA)
	g.requires(`"publish":{"conditionType":"example.com/R"}`)
	g.fresh(n)
	g.then(g.says(n, "A", one(g, "False", "False", "Unknown")),
		Step{Do: "node.override", Node: n, Value: one(g, "Release", "Release", "Hold")})
}

// adorned is a node that registers with about as many annotations as it may.
func (g *generator) adorned(n int) {
	g.inForce(taintOfScene + `,` + requiresA)
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 2})
	g.gone(n)
	g.then(Step{Do: "node.adorn", Node: n, Value: one(g, "a", "s"), N: one(g, 498, 499, 500, 501)}, g.says(n, "A", "True"),
		Step{Do: "node.delete", Node: n})
}

// rereads is a node in service that is not ready while the evidence of its rule is edited. What has no time counts from
// then on.
func (g *generator) rereads(n int) {
	gpu := func(number int) Step { return Step{Do: "node.resource", Node: n, N: number} }
	g.inForce(taintOfScene + `,"stabilization":{"unreadySeconds":30},` + requiresGPU + `,` + requiresA)
	g.fresh(n)
	g.add(gpu(1))
	g.then(g.says(n, "A", "True"))
	g.passes(2)
	way := g.IntN(3)
	if way == 2 {
		g.then(gpu(0))
	} else {
		g.then(g.says(n, "A", "False"))
	}
	g.passes(20)
	if way == 0 {
		g.add(gpu(0))
	}
	g.then(Step{Do: "rule.edit", Rule: sceneRule, Value: []string{`{"conditionPolicy":"anyOf"}`,
		`{"conditions":[{"type":"example.com/C","requiredStatus":"True"}]}`,
		fmt.Sprintf(`{"requirements":[{"name":"node","cel":{"expression":%q}}]}`, Expressions[2])}[way]})
	g.passes(14, 20)
}

// arrives is a node with pods that comes to match a rule, and is not held yet, for unreadySeconds. It frees no place of
// a deleted one.
func (g *generator) arrives(n int) {
	g.inForce(taintOfScene + `,` + poolOfScene + `,"maxUnavailable":1,"stabilization":{"unreadySeconds":30},` + requiresA)
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 2})
	other := g.next(n)
	g.apart(n, "s")
	g.apart(other, "c")
	for p := 1; p <= MaxPods; p++ {
		g.add(Step{Do: "pod.create", Node: other, Pod: p, Value: "x"})
	}
	g.then(g.says(n, "A", "True"))
	g.passes(660)
	g.then(g.says(n, "A", "False"))
	g.passes(31, 3)
	g.then(Step{Do: "node.delete", Node: n})
	g.add(Step{Do: "node.beat", Node: other}, g.says(other, "A", "False"))
	g.then(Step{Do: "node.label", Node: other, Value: "s"})
	g.passes(31)
}

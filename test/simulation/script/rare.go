// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// rare lets happen, in a part of the stories, what they would hardly meet by chance: guards that end at bad moments,
// and nodes that change while they are handed over. It draws for itself, so that the other stories stay as they were.
func (g *generator) rare(seed uint64) {
	own := &generator{Rand: rand.New(rand.NewPCG(seed, 26)), nodes: g.nodes, rules: g.rules, karpenter: true,
		script: &Script{Replicas: g.script.Replicas}}
	own.limiter = own
	switch own.IntN(20) {
	default:
		return
	case 0: // at the end, where nothing else happens to the nodes
		own.last = true
		own.overdue(own.node(), own.rule())
		g.insert(own)
		return
	case 1, 2, 3, 4, 5, 6, 7:
	}
	g.script.Webhooks = true
	one(own, own.suspends, own.returns, own.completes, own.stays, own.renews, own.rehearses, own.leaves)(
		own.node(), own.rule())
	g.insert(own)
}

// insert puts the steps of another generator between those of two actors, or at the end.
func (g *generator) insert(own *generator) {
	switch {
	case len(own.script.Steps) == 0:
		return
	case own.last:
		g.add(own.script.Steps...)
		return
	}
	at := g.between[own.IntN(len(g.between))]
	g.script.Steps = slices.Insert(g.script.Steps, at, own.script.Steps...)
	g.between = slices.DeleteFunc(g.between, func(other int) bool { return other > at })
}

// served puts a rule in force on all nodes, with an edit, and a node with pods in service under it.
func (g *generator) served(n, r int, edit string) {
	for r := range g.script.Replicas {
		g.add(Step{Do: "up", Replica: r})
	}
	g.add(Step{Do: "crd", Value: "ours"}, Step{Do: "evidence", Value: "allowed"},
		Step{Do: "rule.create", Rule: r, Value: g.spec(r)}, Step{Do: "rule.edit", Rule: r, Value: plainly +
			`,"timeout":null,"limits":null,"publish":null,"completionAnnotation":null,"nodeSelector":` + everywhere + `,` +
			edit + `}`},
		Step{Do: "node.create", Node: n, Value: "a"}, Step{Do: "node.override", Node: n}, Step{Do: "node.back", Node: n},
		Step{Do: "node.untaint", Node: n, Value: "example.com/foreign:NoExecute"},
		Step{Do: "node.resource", Node: n, N: 1}, Step{Do: "node.report", Node: n, Of: "A", Value: "True"},
		Step{Do: "node.report", Node: n, Of: "B", Value: "True"}, Step{Do: "pod.create", Node: n, Pod: 1, Value: "x"},
		Step{Do: "pod.create", Node: n, Pod: 2, Value: "x"}, Step{Do: "quiet"}, Step{Do: "pass", N: 12}, Step{Do: "quiet"})
}

// everywhere selects the nodes of all pools.
const everywhere = `{"matchLabels":null,"matchExpressions":[{"key":"example.com/pool","operator":"Exists"}]}`

// linkGuard guards a node for so many seconds while it is lost.
func linkGuard(seconds int) string {
	return fmt.Sprintf(`"conditions":[{"type":"Ready","requiredStatus":"True"}],"evictionGuard":{"maxHoldSeconds":%d}`,
		seconds)
}

// passes lets times pass, and all that is due happen.
func (g *generator) passes(seconds ...int) {
	for _, n := range seconds {
		g.add(Step{Do: "pass", N: n}, Step{Do: "quiet"})
	}
}

// suspends a rule after the end of its guard was recorded, and before a pod is evicted.
func (g *generator) suspends(n, r int) {
	g.served(n, r, linkGuard(90))
	g.add(Step{Do: "node.lost", Node: n}, Step{Do: "quiet"})
	g.passes(61)
	g.add(Step{Do: "pass", N: 30})
	for r := range g.script.Replicas {
		g.add(Step{Do: "brink", Replica: r, Of: "nodes"})
	}
	g.add(Step{Do: "rule.edit", Rule: r, Value: `{"suspend":true}`}, Step{Do: "quiet"})
	g.passes(one(g, 1, 12, 130))
	g.add(Step{Do: "rule.edit", Rule: r, Value: `{"suspend":null}`}, Step{Do: "quiet"})
	g.passes(130)
}

// returns is a node that is ready again by evidence that does not say since when, and stays lost.
func (g *generator) returns(n, r int) {
	requirement, bad, good := `{"name":"gpu","resource":{"name":"example.com/gpu","min":"1"}}`,
		Step{Do: "node.resource", Node: n}, Step{Do: "node.resource", Node: n, N: 1}
	if g.IntN(2) == 0 {
		requirement = fmt.Sprintf(`{"name":"node","cel":{"expression":%q}}`, Expressions[1])
		bad, good = Step{Do: "node.report", Node: n, Of: "B", Value: "False"},
			Step{Do: "node.report", Node: n, Of: "B", Value: "True"}
	}
	g.served(n, r, `"conditions":null,"requirements":[`+requirement+`],"evictionGuard":{"maxHoldSeconds":60}`)
	g.add(Step{Do: "node.lost", Node: n}, bad, Step{Do: "quiet"})
	g.passes(15)
	g.add(good, Step{Do: "quiet"})
	g.passes(61, 130)
}

// completes lets a rule complete a node that it guards, after the guard of another rule has ended.
func (g *generator) completes(n, r int) {
	other := 1 + r%MaxRules
	if g.IntN(2) == 0 {
		g.add(Step{Do: "node.clock", Node: n, N: 400})
	}
	g.served(n, r, `"taint":{"key":"example.com/t1","value":"","effect":"NoExecute"},`+
		`"evictionGuard":{"maxHoldSeconds":60}`)
	g.add(Step{Do: "node.report", Node: n, Of: "B", Value: "False"}, Step{Do: "rule.delete", Rule: other},
		Step{Do: "quiet"})
	g.passes(1)
	g.add(Step{Do: "rule.create", Rule: other, Value: `{"nodeSelector":{"matchExpressions":[{"key":"example.com/pool",` +
		`"operator":"Exists"}]},"conditions":[{"type":"example.com/B","requiredStatus":"True"}],"enforcementMode":` +
		`"bootstrap-only","evictionGuard":{"maxHoldSeconds":600}` +
		one(g, "", `,"taint":{"key":"example.com/t2","effect":"NoSchedule"}`) + `}`}, Step{Do: "quiet"},
		Step{Do: "node.report", Node: n, Of: "A", Value: "False"}, Step{Do: "quiet"})
	g.passes(61)
	g.add(Step{Do: "node.report", Node: n, Of: "B", Value: "True"}, Step{Do: "quiet"})
	g.passes(12, 130)
}

// hands a node over that never was ready.
func (g *generator) hands(n, r int, way string) {
	g.served(n, r, fmt.Sprintf(`"timeout":{"seconds":60,"appearSeconds":null,"action":"Replace","replace":`+
		`{"maxPerHour":20,%s}},"taint":{"key":"example.com/t1","value":"","effect":"NoSchedule"}`, way))
	g.add(Step{Do: "claim.delete", Node: n}, Step{Do: "node.delete", Node: n},
		Step{Do: "pod.delete", Node: n, Pod: 1}, Step{Do: "pod.delete", Node: n, Pod: 2},
		Step{Do: "claim.finish", Node: n, Value: "a"})
	g.register(n)
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 61})
}

// stays is a node that is handed over, and may not be replaced any more.
func (g *generator) stays(n, r int) {
	g.hands(n, r, fmt.Sprintf(`"method":"Annotation","annotation":{"key":"example.com/replace-r%d"}`, r))
	g.add(Step{Do: "quiet"})
	g.passes(31)
	g.add(one(g, Step{Do: "node.role", Node: n}, Step{Do: "node.maintain", Node: n, Value: "true"},
		Step{Do: "node.override", Node: n, Value: "Hold"},
		Step{Do: "rule.edit", Rule: r, Value: `{"timeout":{"action":"Keep","replace":null}}`}), Step{Do: "quiet"})
	g.passes(12)
}

// renews lets Karpenter update the NodeClaim of a node while it is about to be deleted.
func (g *generator) renews(n, r int) {
	g.hands(n, r, `"annotation":null,"method":"NodeClaim"`)
	for r := range g.script.Replicas {
		g.add(Step{Do: "brink", Replica: r, Of: "nodeclaims"})
	}
	g.add(Step{Do: "claim.update", Node: Concerned}, Step{Do: "quiet"})
	g.passes(31)
}

// rehearses lets a node whose clock is ahead reboot under a rule that is put in dry-run. Until the boot is confirmed,
// each report of the node counts only when its time has come.
func (g *generator) rehearses(n, r int) {
	g.add(Step{Do: "node.clock", Node: n, N: one(g, 50, 400)})
	g.served(n, r, `"rearmOn":["Reboot"],"taint":{"key":"example.com/t1","value":"","effect":`+
		one(g, `"NoSchedule"`, `"NoExecute"`)+`}`)
	g.add(Step{Do: "rule.edit", Rule: r, Value: `{"dryRun":true}`}, Step{Do: "quiet"}, Step{Do: "node.reboot", Node: n},
		Step{Do: "quiet"})
	g.passes(12, 130)
	g.add(Step{Do: "node.beat", Node: n}, Step{Do: "quiet"})
}

// overdue are nodes whose timeout has ended, and that cannot be replaced: they have no NodeClaim.
func (g *generator) overdue(n, r int) {
	g.served(n, r, `"timeout":{"seconds":60,"appearSeconds":null,"action":"Replace","replace":{"maxPerHour":20,`+
		`"annotation":null,"method":"NodeClaim"}},"taint":{"key":"example.com/t1","value":"","effect":"NoSchedule"}`)
	for n := 1; n <= MaxNodes; n++ {
		g.add(Step{Do: "node.delete", Node: n}, Step{Do: "claim.delete", Node: n}, Step{Do: "pod.delete", Node: n, Pod: 1},
			Step{Do: "pod.delete", Node: n, Pod: 2}, Step{Do: "node.create", Node: n, Value: "a"})
	}
	g.add(Step{Do: "quiet"})
	g.passes(61, 31, 31)
}

// leaves lets a rule be deleted while a policy refuses all writes of a node that it holds.
func (g *generator) leaves(n, r int) {
	g.served(n, r, `"taint":{"key":"example.com/t1","value":"","effect":"NoSchedule"}`)
	g.add(g.says(n, "A", "False"), Step{Do: "quiet"}, Step{Do: "node.refuse", Node: n, Value: "true"},
		Step{Do: "rule.delete", Rule: r}, Step{Do: "live", N: one(g, 5, 90, 90)}, Step{Do: "quiet"},
		Step{Do: "node.refuse", Node: n}, Step{Do: "live", N: 61}, Step{Do: "quiet"})
}

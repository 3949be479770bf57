// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"math/rand/v2"
)

// The rules of scenes, which no other actor touches. Most scenes need one rule.
const (
	sceneRule = MaxRules + 2
	otherRule = MaxRules + 3
)

const (
	allPools     = `"nodeSelector":{"matchExpressions":[{"key":"example.com/pool","operator":"Exists"}]}`
	taintOfScene = `"taint":{"key":"example.com/t6","effect":"NoSchedule"}`
	requiresA    = `"conditions":[{"type":"example.com/A","requiredStatus":"True"}]`
	requiresGPU  = `"requirements":[{"name":"gpu","resource":{"name":"example.com/gpu","min":"1"}}]`
)

// scenes lets happen what needs several things to coincide. The story is shorter for it. It draws for itself, so that
// the rest of the story stays as it was.
func (g *generator) scenes(seed uint64) *generator {
	own := &generator{Rand: rand.New(rand.NewPCG(seed, 8)), nodes: g.nodes, rules: g.rules, karpenter: true,
		script: &Script{Replicas: g.script.Replicas}}
	own.limiter = own
	switch own.IntN(3) {
	case 0:
		g.script.Webhooks = true
		own.coincidences()
	case 1:
		own.details()
	default:
		own.corners()
	}
	return own
}

// coincidences are scenes in which several things happen at a bad moment.
func (g *generator) coincidences() {
	if g.last = g.IntN(8) == 0; g.last { // what is judged only when everything has come to rest
		one(g, g.withdraws, g.outranks, g.filled)(g.node())
		return
	}
	for range 2 {
		one(g, g.probeless, g.ripens, g.annotated, g.either, g.owned, g.unlisted, g.unseen, g.rehearsal,
			g.waits, g.overridden, g.shares, g.windowed, g.filled, g.reclaims, g.forges, g.appears,
			g.calms, g.inherits, g.twins, g.joins, g.refreezes)(g.node())
	}
	g.add(Step{Do: "rule.delete", Rule: sceneRule})
}

// inForce puts the rule of a scene in force, for the nodes of all pools.
func (g *generator) inForce(spec string) {
	if len(g.script.Steps) > 0 {
		g.add(Step{Do: "rule.delete", Rule: sceneRule}, Step{Do: "quiet"})
	}
	g.runs()
	g.add(Step{Do: "rule.create", Rule: sceneRule,
		Value: `{` + allPools + `,"enforcementMode":"continuous",` + spec + `}`})
}

// runs lets all replicas run, and read rules and evidence.
func (g *generator) runs() {
	for r := range g.script.Replicas {
		g.add(Step{Do: "up", Replica: r})
	}
	g.add(Step{Do: "crd", Value: "ours"}, Step{Do: "evidence", Value: "allowed"})
}

// fresh lets a new node register that Karpenter has launched, instead of another one of its name.
func (g *generator) fresh(n int) {
	g.gone(n)
	g.add(Step{Do: "claim.finish", Node: n, Value: "a"}, Step{Do: "claim.launch", Node: n, Value: "a"})
}

// gone deletes a node with its NodeClaim and its pods.
func (g *generator) gone(n int) {
	g.add(Step{Do: "claim.delete", Node: n}, Step{Do: "node.delete", Node: n}, Step{Do: "node.finish", Node: n},
		Step{Do: "pod.delete", Node: n, Pod: 1}, Step{Do: "pod.delete", Node: n, Pod: 2})
}

// then lets each step happen, and all that is due after it.
func (g *generator) then(steps ...Step) {
	for _, s := range steps {
		g.add(s, Step{Do: "quiet"})
	}
}

// each lets a step happen for all replicas.
func (g *generator) each(s Step) {
	for s.Replica = range g.script.Replicas {
		g.add(s)
	}
}

// next is another node.
func (g *generator) next(n int) int { return n%g.nodes + 1 }

// waits is a node that waits until another component has removed its taint.
func (g *generator) waits(n int) {
	effect := one(g, "NoSchedule", "NoExecute", "PreferNoSchedule")
	g.inForce(taintOfScene + fmt.Sprintf(`,"requirements":[{"name":"starting","noTaint":{"key":`+
		`"example.com/foreign","effect":%q}}]`, effect))
	g.fresh(n)
	taint := Step{Do: "node.taint", Node: n, Value: "example.com/foreign:" + effect}
	g.then(taint, Step{Do: "node.untaint", Node: n, Value: taint.Value}, taint)
}

// bothReady lets a node and another one join and become ready, and returns the other one.
func (g *generator) bothReady(n int) int {
	other := g.next(n)
	for _, n := range []int{n, other} {
		g.fresh(n)
		g.add(g.says(n, "A", "True"))
	}
	g.add(Step{Do: "quiet"})
	g.passes(1)
	return other
}

// overridden nodes do not use the limit. One is overridden before the limit is full, or after that.
func (g *generator) overridden(n int) {
	g.inForce(taintOfScene + `,"maxUnavailable":1,` + requiresA)
	other := g.bothReady(n)
	override := Step{Do: "node.override", Node: n, Value: "Hold", N: one(g, 0, 0, 20)}
	if g.IntN(2) == 0 {
		g.then(g.says(other, "A", "False"), g.says(n, "A", "False"), override)
	} else {
		g.then(override, g.says(other, "A", "False"))
	}
	g.passes(21)
	g.then(Step{Do: "node.override", Node: n}, g.says(other, "A", "True"))
}

// shares are nodes that become unready under a limit that is a percentage.
func (g *generator) shares(int) {
	g.inForce(taintOfScene + `,"maxUnavailable":"30%",` + requiresA)
	for n := range g.nodes {
		g.add(Step{Do: "node.create", Node: n + 1, Value: "a"}, Step{Do: "node.override", Node: n + 1},
			g.says(n+1, "A", "True"))
	}
	g.add(Step{Do: "quiet"})
	g.passes(1)
	for _, n := range g.Perm(g.nodes)[:min(3, g.nodes)] {
		g.then(g.says(n+1, "A", "False"))
	}
}

// windowed is a node that is not held yet, for unreadySeconds, when the operator starts. It frees no place of a deleted
// one.
func (g *generator) windowed(n int) {
	g.inForce(taintOfScene + `,"maxUnavailable":1,"stabilization":{"unreadySeconds":30},` + requiresA)
	other := g.bothReady(n)
	g.then(g.says(n, "A", "False"))
	g.passes(31, 3)
	g.then(Step{Do: "node.delete", Node: n}, g.says(other, "A", "False"))
	g.passes(5)
	g.each(Step{Do: "kill"})
	g.add(Step{Do: "quiet"})
	g.passes(31)
}

// replaces is the part of a rule's spec by which it hands nodes over.
func replaces(way string) string {
	return taintOfScene + `,` + requiresA + `,"timeout":{"seconds":60,"action":"Replace","replace":{"maxPerHour":20,` +
		way + `}}`
}

const byAnnotation = `"annotation":{"key":"example.com/replace-r6"}`

// filled is a node that cannot be marked for replacement: its annotations have room for the end of the timeout only.
func (g *generator) filled(n int) {
	g.inForce(replaces(byAnnotation))
	g.fresh(n)
	g.then(Step{Do: "node.back", Node: n}, Step{Do: "node.fill", Node: n, N: one(g, 45, 60, 80, 100)})
	g.passes(61, 31, 31)
}

// reclaims lets Karpenter create a NodeClaim again while the former one is about to be deleted.
func (g *generator) reclaims(n int) {
	g.inForce(replaces(`"method":"NodeClaim"`))
	g.fresh(n)
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 61})
	g.each(Step{Do: "brink", Of: "nodeclaims"})
	g.add(Step{Do: "claim.delete", Node: n}, Step{Do: "claim.finish", Node: n, Value: "a"}, Step{Do: "quiet"})
	g.passes(31)
}

// forges is a node that names the NodeClaim of another one as its owner.
func (g *generator) forges(n int) {
	g.inForce(replaces(`"method":"NodeClaim"`))
	other := g.next(n)
	g.fresh(other)
	g.then(g.says(other, "A", "True"))
	g.add(Step{Do: "claim.delete", Node: n}, Step{Do: "node.delete", Node: n}, Step{Do: "node.finish", Node: n},
		Step{Do: "pod.delete", Node: n, Pod: 1}, Step{Do: "pod.delete", Node: n, Pod: 2},
		Step{Do: "claim.finish", Node: n, Value: "a", Of: "forged", N: other},
		Step{Do: "claim.launch", Node: n, Value: "a", Of: "forged", N: other}, Step{Do: "quiet"})
	g.passes(61, 31)
}

// appears is evidence that is in the cache when a node is about to be handed over, and that the node's controller has
// not heard of.
func (g *generator) appears(n int) {
	g.inForce(replaces(byAnnotation))
	g.fresh(n)
	g.then(Step{Do: "node.maintain", Node: n, Value: "true"})
	g.passes(61)
	g.add(Step{Do: "node.maintain", Node: n}, Step{Do: "calm"}, g.says(n, "A", "True"))
	g.each(Step{Do: "deliver", Of: "nodes", N: -1})
	g.add(Step{Do: "pass", N: 31})
	for range 3 {
		g.each(Step{Do: "work"})
	}
	g.add(Step{Do: "quiet"})
}

// calms is a node that a rule guards, and completes when the node is ready again.
func (g *generator) calms(n int) {
	g.inForce(taintOfScene + `,"enforcementMode":"bootstrap-only","evictionGuard":{"maxHoldSeconds":600},` +
		requiresA)
	g.fresh(n)
	g.add(g.says(n, "A", "False"), Step{Do: "quiet"})
	g.passes(61)
	g.then(Step{Do: "node.lost", Node: n}, Step{Do: "node.back", Node: n}, g.says(n, "A", "True"))
	g.passes(14, 14)
}

// inherits lets a rule be created again that has completed a node.
func (g *generator) inherits(n int) {
	const spec = taintOfScene + `,"enforcementMode":"bootstrap-only",` + requiresA
	g.inForce(spec)
	g.fresh(n)
	g.then(g.says(n, "A", "True"), g.says(n, "A", "False"))
	g.inForce(spec)
	g.add(Step{Do: "quiet"})
	g.passes(one(g, 12, 700))
}

// twins lets a node be created again while the first patch of the former one is under way.
func (g *generator) twins(n int) {
	g.inForce(taintOfScene + `,"nodeAdmission":"None",` + requiresA)
	g.fresh(n)
	g.each(Step{Do: "brink", Of: "nodes"})
	g.add(Step{Do: "node.delete", Node: Concerned}, Step{Do: "node.create", Node: Concerned, Value: "a"},
		Step{Do: "quiet"})
}

// joins is a new node that its kubelet puts into the pool of a rule.
func (g *generator) joins(n int) {
	g.inForce(taintOfScene + `,"nodeSelector":{"matchLabels":{"example.com/pool":"a"}},` + requiresA)
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 2}, Step{Do: "node.delete", Node: n}, Step{Do: "node.finish", Node: n},
		Step{Do: "node.create", Node: n, Value: "c"})
	g.then(Step{Do: "node.beat", Node: n}, Step{Do: "node.label", Node: n, Value: "a", Of: "kubelet"})
}

// refreezes replaces the CRD again before the operator has read the rules, which it does since the CRD was ours.
func (g *generator) refreezes(n int) {
	g.inForce(taintOfScene + `,"nodeAdmission":"None",` + requiresA)
	g.add(Step{Do: "quiet"}, Step{Do: "crd", Value: "foreign"}, Step{Do: "calm"}, Step{Do: "crd", Value: "ours", N: 1},
		Step{Do: "crd", Value: "foreign", N: g.IntN(2)}, Step{Do: "calm"})
	g.fresh(n)
	g.add(Step{Do: "calm"}, Step{Do: "pass", N: one(g, 1, 12)}, Step{Do: "calm"}, Step{Do: "crd", Value: "ours"},
		Step{Do: "quiet"})
}

// withdraws puts a rule in dry-run that becomes invalid in the same edit.
func (g *generator) withdraws(n int) {
	g.inForce(taintOfScene + `,"publish":{"conditionType":"example.com/R"},` + requiresA)
	g.fresh(n)
	g.then(g.says(n, "A", "False"), Step{Do: "rule.edit", Rule: sceneRule,
		Value: fmt.Sprintf(`{"dryRun":true,"requirements":[{"name":"node","cel":{"expression":%q}}]}`, one(g, refused...))})
}

// outranks is an override of a node that is ready under one rule, which another one requires.
func (g *generator) outranks(n int) {
	g.inForce(taintOfScene + `,` + requiresA)
	g.add(Step{Do: "rule.create", Rule: otherRule, Value: fmt.Sprintf(`{%s,"enforcementMode":"continuous","publish":{`+
		`"conditionType":"example.com/R"},"requirements":[{"name":"other","ruleSatisfied":{"name":"r%d"}}]}`, allPools,
		sceneRule)})
	g.fresh(n)
	g.then(g.says(n, "A", "True"), Step{Do: "node.override", Node: n, Value: "Hold"})
}

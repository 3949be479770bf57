// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"math/rand/v2"
	"slices"
)

// reads lets something happen, in a part of the stories, between what the operator reads for one decision. It draws for
// itself, so that the other stories stay as they were.
func (g *generator) reads(seed uint64) {
	own := &generator{Rand: rand.New(rand.NewPCG(seed, 12)), nodes: g.nodes, rules: g.rules,
		script: &Script{Replicas: g.script.Replicas}}
	own.limiter = own
	switch own.IntN(6) {
	case 0, 1:
		own.swaps(own.node())
		g.insert(own)
	case 2:
		own.blinds(own.node())
		g.insert(own)
	case 3: // anywhere
		for range 6 {
			at := own.IntN(len(g.script.Steps))
			g.script.Steps = slices.Insert(g.script.Steps, at, own.pause()...)
			g.between = slices.DeleteFunc(g.between, func(other int) bool { return other > at })
		}
	}
}

// pause lets reconciles of nodes pause at all replicas.
func (g *generator) pause() (out []Step) {
	s := Step{Do: "pause", N: 1 + g.IntN(3), Of: one(g, "", Amid)}
	for s.Replica = range g.script.Replicas {
		out = append(out, s)
	}
	return out
}

// evidenceOfScene is what the rule of a scene may require. All of it is there.
var evidenceOfScene = []string{
	`"conditions":null,"requirements":[{"name":"pods","pods":{"namespace":"apps","selector":{"matchLabels":` +
		`{"app":"x"}}}}]`,
	`"conditions":null,"requirements":[{"name":"pods","pods":{"namespace":"apps","selector":{"matchLabels":` +
		`{"app":"y"}}}}]`,
	`"conditions":null,"requirements":[{"name":"pods","pods":{"namespace":"apps","selector":{"matchExpressions":` +
		`[{"key":"app","operator":"Exists"}]}}}]`,
	`"conditions":null,"requirements":[{"name":"driver","csiDriver":{"name":"csi.example.com"}}]`,
	`"conditions":null,"requirements":[{"name":"devices","devices":{"driver":"gpu.example.com","min":1}}]`,
	`"requirements":null,` + requiresA,
}

// swaps edits a rule so that it requires other evidence, while nodes in service are being reconciled by the former one.
// All of the evidence is there, and nothing changes at the nodes that would make them unready.
func (g *generator) swaps(n int) {
	is := g.IntN(len(evidenceOfScene))
	g.inForce(taintOfScene + `,` + poolOfScene + `,` + requiresA)
	g.add(Step{Do: "rule.edit", Rule: sceneRule, Value: `{` + evidenceOfScene[is] + `}`})
	g.apart(n, "s")
	g.add(g.says(n, "A", "True"), Step{Do: "node.driver", Node: n, N: 3}, Step{Do: "node.devices", Node: n, N: 1})
	for p, app := range []string{"x", "y"} {
		g.add(Step{Do: "pod.create", Node: n, Pod: p + 1, Value: app},
			Step{Do: "pod.ready", Node: n, Pod: p + 1, Value: "true"})
	}
	g.add(Step{Do: "quiet"})
	g.passes(12)
	for range 3 {
		next := (is + 1 + g.IntN(len(evidenceOfScene)-1)) % len(evidenceOfScene)
		edit := Step{Do: "rule.edit", Rule: sceneRule, Value: `{` + evidenceOfScene[next] + `}`}
		early := g.IntN(2) == 0 // the other evidence is being read when the node is looked at
		if early {
			g.add(edit)
			g.each(Step{Do: "begin"})
		}
		g.add(g.says(n, "B", g.status()))
		g.add(g.pause()...)
		for h := range 3 {
			g.each(Step{Do: "deliver", Of: "nodes", N: -1})
			g.each(Step{Do: "notify", Of: "nodes", Rule: h, N: -1})
		}
		g.each(Step{Do: "work"})
		g.each(Step{Do: "work"})
		if !early {
			g.add(edit)
		}
		for range 3 {
			g.each(Step{Do: "begin"})
		}
		g.add(Step{Do: one(g, "calm", "quiet")})
		is = next
	}
	g.add(Step{Do: "quiet"})
}

// blinds lets a node in service reboot while no replica runs. Its pods cannot be listed once the boot is confirmed.
func (g *generator) blinds(n int) {
	g.inForce(taintOfScene + `,` + poolOfScene + `,"rearmOn":["Reboot"],` + requiresA)
	g.add(Step{Do: "rule.edit", Rule: sceneRule, Value: `{` + evidenceOfScene[g.IntN(2)] + `}`})
	g.apart(n, "s")
	pods := func() {
		for p, app := range []string{"x", "y"} {
			g.add(Step{Do: "pod.create", Node: n, Pod: p + 1, Value: app},
				Step{Do: "pod.ready", Node: n, Pod: p + 1, Value: "true"})
		}
	}
	pods()
	g.add(Step{Do: "quiet"})
	g.passes(12)
	g.each(Step{Do: "down"})
	g.add(Step{Do: "node.reboot", Node: n})
	pods()
	g.add(Step{Do: "pass", N: one(g, 1, 61, 130)}, Step{Do: "node.beat", Node: n})
	if g.IntN(2) == 0 {
		g.each(Step{Do: "unread", N: 30})
	}
	g.each(Step{Do: "up"})
	for _, seconds := range []int{one(g, 1, 130), 130, 31, 31} {
		g.each(Step{Do: "unread", N: 30})
		g.add(Step{Do: "node.beat", Node: n}, g.says(n, "B", g.status()))
		g.passes(seconds)
	}
	g.each(Step{Do: "unread"})
	g.passes(31)
}

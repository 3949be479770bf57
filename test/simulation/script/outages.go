// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "fmt"

// reboots are those of one node, or of nodes in service while no replica runs: their pods start before kubelet reports
// Ready, and some of what was reported is lost.
func (g *generator) reboots() {
	if g.IntN(3) > 0 {
		g.add(Step{Do: "node.reboot", Node: g.node()})
		return
	}
	r := g.rule()
	if g.IntN(2) == 0 {
		g.add(Step{Do: "rule.edit", Rule: r, Value: one(g, `{"rearmOn":["Reboot"],"suspend":null,"dryRun":null}`,
			`{"rearmOn":["Reboot"],"suspend":null,"dryRun":null,"conditions":null,"requirements":[{"name":"pods","pods":`+
				`{"namespace":"apps","selector":{"matchLabels":{"app":"x"}}}}]}`)})
	}
	nodes := make([]int, 1+g.IntN(g.nodes))
	for i := range nodes {
		nodes[i] = g.node()
		g.add(Step{Do: "pod.create", Node: nodes[i], Pod: 1, Value: "x"},
			Step{Do: "pod.ready", Node: nodes[i], Pod: 1, Value: "true"},
			Step{Do: "node.report", Node: nodes[i], Of: "A", Value: "True"})
	}
	g.add(Step{Do: "calm"}, Step{Do: "pass", N: 12}, Step{Do: "calm"})
	if g.IntN(6) == 0 {
		g.add(Step{Do: "rule.edit", Rule: r, Value: `{"dryRun":true}`}, Step{Do: "calm"})
	}
	for r := range g.script.Replicas {
		g.add(Step{Do: "down", Replica: r})
	}
	for _, n := range nodes {
		g.add(Step{Do: "node.reboot", Node: n}, Step{Do: "pod.ready", Node: n, Pod: 1, Value: "true"},
			Step{Do: "pass", N: one(g, 1, 5, 30)}, Step{Do: "node.beat", Node: n})
	}
	g.add(Step{Do: "node.report", Node: nodes[0], Of: "A", Value: g.status()}, Step{Do: "up", Replica: g.replica()})
	if g.IntN(2) == 0 {
		g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 130}, Step{Do: "node.beat", Node: nodes[0]}, Step{Do: "quiet"},
			Step{Do: "pass", N: 30}, Step{Do: "quiet"})
	}
}

// outages cut links of nodes; the node controller evicts their pods, of which a policy protects some. Some guards end
// because the rule is deleted, or is no longer about the node.
func (g *generator) outages() {
	n, r := g.node(), g.rule()
	if g.IntN(4) > 0 {
		g.add(Step{Do: one(g, "node.lost", "node.lost", "node.back"), Node: n})
		return
	}
	g.add(Step{Do: "pod.create", Node: n, Pod: 1, Value: "x", Of: one(g, "", "protected")},
		Step{Do: "pod.create", Node: n, Pod: 2, Value: "x"})
	if g.IntN(2) == 0 {
		g.add(Step{Do: "rule.edit", Rule: r, Value: one(g, `{"evictionGuard":{"maxHoldSeconds":600},"suspend":null}`,
			`{"evictionGuard":{"maxHoldSeconds":600},"suspend":null,"dryRun":null,"requirements":null,`+
				`"conditions":[{"type":"Ready","requiredStatus":"True"}]}`)},
			Step{Do: "node.report", Node: n, Of: "A", Value: "False"})
	}
	g.add(Step{Do: "calm"}, Step{Do: "node.lost", Node: n}, Step{Do: "calm"})
	if g.IntN(2) == 0 { // the pods that tolerate that for a while are evicted
		g.add(Step{Do: "pass", N: one(g, 15, 35, 61)}, Step{Do: "quiet"}, Step{Do: "pass", N: one(g, 15, 35, 700)},
			Step{Do: "quiet"})
	}
	if g.IntN(2) == 0 {
		g.add(one(g, Step{Do: "rule.delete", Rule: r}, Step{Do: "rule.edit", Rule: r, Value: `{"evictionGuard":null}`},
			Step{Do: "rule.edit", Rule: r, Value: `{"dryRun":true}`}, Step{Do: "node.label", Node: n, Value: "c"}))
	}
}

// guards cut the link of a node in service, so that the node controller is denied the eviction of its pods. The link
// comes back, or the guard ends.
func (g *generator) guards() {
	n, r := g.node(), g.rule()
	g.add(Step{Do: "rule.edit", Rule: r, Value: fmt.Sprintf(`{"evictionGuard":{"maxHoldSeconds":%d},"suspend":null,`+
		`"dryRun":null,"requirements":null,"conditions":[{"type":"Ready","requiredStatus":"True"}],"conditionPolicy":null,`+
		`"nodeSelector":{"matchLabels":null,"matchExpressions":[{"key":"example.com/pool","operator":"Exists"}]},`+
		`"enforcementMode":%q}`, one(g, 60, 600, 600), one(g, "continuous", "continuous", "bootstrap-only"))},
		Step{Do: "node.back", Node: n}, Step{Do: "pod.create", Node: n, Pod: 1, Value: "x", Of: one(g, "", "", "protected")},
		Step{Do: "pod.create", Node: n, Pod: 2, Value: "x"}, Step{Do: "quiet"}, Step{Do: "pass", N: 12}, Step{Do: "quiet"},
		Step{Do: "node.lost", Node: n}, Step{Do: one(g, "calm", "quiet", "begin"), Replica: g.replica()},
		Step{Do: "pass", N: 35}, Step{Do: "quiet"})
	for range g.IntN(3) {
		g.add(Step{Do: "pass", N: one(g, 12, 35, 700)}, Step{Do: "quiet"})
	}
	switch g.IntN(6) {
	case 0, 1: // the rule guards the node no longer
		g.add(one(g, Step{Do: "rule.delete", Rule: r}, Step{Do: "rule.edit", Rule: r, Value: `{"evictionGuard":null}`},
			Step{Do: "rule.edit", Rule: r, Value: `{"dryRun":true}`}), Step{Do: "quiet"}, Step{Do: "pass", N: 12},
			Step{Do: "quiet"})
	case 2: // the guard ends while the rule is suspended
		g.add(Step{Do: "rule.edit", Rule: r, Value: `{"suspend":true}`}, Step{Do: "quiet"}, Step{Do: "pass", N: 700},
			Step{Do: "quiet"}, Step{Do: "rule.edit", Rule: r, Value: `{"suspend":null}`}, Step{Do: "quiet"})
	}
	if g.IntN(3) == 0 { // a person deletes what the guard keeps
		g.add(Step{Do: "pod.delete", Node: n, Pod: 1 + g.IntN(2)})
	}
	if g.IntN(2) == 0 {
		g.add(Step{Do: "node.back", Node: n}, Step{Do: "pass", N: one(g, 1, 12)}, Step{Do: "quiet"})
	}
}

// crowds are nodes that become unready one after the other, so that some of them wait for the limit.
func (g *generator) crowds() {
	r := g.rule()
	if g.IntN(2) == 0 {
		g.add(Step{Do: "rule.edit", Rule: r, Value: g.limiter.crowdLimit(1) + `"suspend":null,"dryRun":null,` +
			`"requirements":null,"existingNodes":null,"conditions":[{"type":"example.com/A","requiredStatus":"True"}]}`})
	}
	for n := range g.nodes {
		g.add(Step{Do: "node.report", Node: n + 1, Of: "A", Value: "True"})
	}
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 12}, Step{Do: "quiet"})
	nodes := g.Perm(g.nodes)
	if g.IntN(3) == 0 {
		g.add(one(g, Step{Do: "node.cordon", Node: nodes[0] + 1, Value: "true"},
			Step{Do: "node.override", Node: nodes[0] + 1, Value: "Hold"}))
	}
	for _, n := range nodes {
		g.add(Step{Do: "node.report", Node: n + 1, Of: "A", Value: "False"}, Step{Do: "pass", N: one(g, 1, 5, 12)},
			Step{Do: "quiet"})
		if g.limiter.IntN(6) == 0 {
			g.add(Step{Do: "node.rack", Node: g.limiter.node(), Value: g.limiter.rack()})
		}
	}
	for _, n := range nodes[:1+g.IntN(g.nodes)] {
		g.add(Step{Do: "node.report", Node: n + 1, Of: "A", Value: "True"}, Step{Do: "pass", N: one(g, 1, 5, 12)},
			Step{Do: "quiet"})
	}
}

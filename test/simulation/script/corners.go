// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "fmt"

// corners are scenes about rules that are not in force, and about decisions that depend on a place.
func (g *generator) corners() {
	for range 2 {
		one(g, g.pauses, g.pauses, g.withdrawn, g.refuses, g.brings)(g.node())
	}
	g.add(Step{Do: "rule.delete", Rule: sceneRule}, Step{Do: "rule.delete", Rule: otherRule})
}

// pauses is a held node whose rule is not in force any more when it is lost, relabelled or tainted. Then it gets a pod.
func (g *generator) pauses(n int) {
	g.inForce(taintOfScene + `,` + poolOfScene + `,"podAdmission":"Deny","evictionGuard":{"maxHoldSeconds":600},` +
		requiresA)
	g.apart(n, "s")
	g.then(g.says(n, "A", "True"), Step{Do: "pod.create", Node: n, Pod: 2, Value: "x"}, g.says(n, "A", "False"))
	if g.IntN(2) == 0 {
		g.then(Step{Do: "node.lost", Node: n})
	}
	out := Step{Do: "rule.edit", Rule: sceneRule, Value: `{"suspend":true}`}
	if g.IntN(3) == 0 {
		out.Value = fmt.Sprintf(`{"dryRun":true,%s}`, invalid())
	}
	g.then(out)
	if g.IntN(2) == 0 {
		g.then(Step{Do: "node.label", Node: n, Value: "c"})
	}
	if g.IntN(2) == 0 {
		g.then(Step{Do: "node.taint", Node: n, Value: "example.com/t6:NoSchedule"})
	}
	g.then(Step{Do: "pod.create", Node: n, Pod: 1, Value: "x", N: n % 2}) // with a binding on every other node
	g.passes(35)
	g.then(Step{Do: "node.back", Node: n})
}

// invalid is evidence that no rule may require, also of the rule of the scene.
func invalid() string {
	return fmt.Sprintf(`"requirements":[{"name":"other","ruleSatisfied":{"name":"r%d"}},{"name":"node","cel":`+
		`{"expression":%q}}]`, sceneRule, refused[0])
}

// withdrawn is a rule in dry-run, which may be invalid. It waits for another rule, which waits for a DaemonSet that
// does not tolerate the taint of the first one.
func (g *generator) withdrawn(n int) {
	g.inForce(taintOfOther + `,` + poolOfScene + `,"maxUnavailable":1,"requirements":[{"name":"daemons","daemonSets":` +
		`{"namespaces":["apps"],"selector":{"matchExpressions":[{"key":"daemon","operator":"In","values":["d2"]},` +
		`{"key":"daemon","operator":"NotIn","values":["d1"]},{"key":"daemon","operator":"Exists"},` +
		`{"key":"other","operator":"DoesNotExist"}]},"untolerated":"Ignore"}}]`)
	g.requires(taintOfScene + `,"dryRun":true`)
	const others = "example.com/t1,example.com/t2,example.com/t3,example.com/t4,example.com/t5,example.com/t7"
	g.add(Step{Do: "daemon.create", Pod: 2, Of: others})
	if g.IntN(3) > 0 {
		g.add(Step{Do: "rule.edit", Rule: otherRule, Value: `{` + invalid() + `}`})
	}
	g.add(Step{Do: "quiet"})
	g.passes(2)
	g.apart(n, "s")
	g.add(Step{Do: "quiet"})
	g.then(Step{Do: "daemon.sync", Pod: 2}, ready(n, MaxPods+2, "true"), Step{Do: "rule.delete", Rule: otherRule})
}

// refuses are new nodes of one rack that are found unready one after the other, or become so, under a rule that
// publishes only so many in each domain.
func (g *generator) refuses(int) {
	g.inForce(`"publish":{"conditionType":"example.com/S"},"limits":[{"max":4},` + one(g, `{"max":1,`+rackLimit,
		`{"max":1,`+zoneLimit, `{"max":2,`+rackLimit) + `],` + requiresA)
	nodes := g.Perm(g.nodes)[:min(4, g.nodes)]
	for _, n := range nodes {
		g.gone(n + 1)
		g.enters(n+1, "a", "x")
		if g.IntN(3) > 0 {
			g.add(g.says(n+1, "A", "Unknown"))
		}
	}
	g.add(Step{Do: "quiet"})
	g.passes(12)
	for _, n := range nodes {
		g.then(g.says(n+1, "A", "False"))
	}
	g.then(g.says(nodes[0]+1, "A", "True"))
}

// brings is a node that registers with the taint of a rule, and with a record by which it is in service.
func (g *generator) brings(n int) {
	g.inForce(taintOfScene + `,` + poolOfScene + `,` + requiresA)
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 2})
	g.gone(n)
	g.then(Step{Do: "node.create", Node: n, Value: "s", Rule: sceneRule, Pod: one(g, 0, 3, 3, 3)}, g.says(n, "A", "True"))
}

// prunes restarts the operator while the CRD lacks fields of a rule. The watch of rules goes on when ours is served
// again. Then a node becomes unready by such a field only.
func (g *generator) prunes() {
	n := g.node()
	g.alone()
	g.inForce(taintOfScene + `,` + poolOfScene + `,` + requiresGPU + `,` + requiresA)
	g.apart(n, "s")
	g.add(Step{Do: "node.resource", Node: n, N: 1})
	g.then(g.says(n, "A", "True"))
	g.passes(2)
	g.add(Step{Do: "crd", Value: "foreign"})
	g.each(Step{Do: "kill"})
	g.add(Step{Do: "calm"}, Step{Do: "crd", Value: "ours", N: 1})
	g.passes(6, 31)
	g.then(Step{Do: "node.resource", Node: n})
}

// overlaid is an old node with pods that comes to match a rule, while another rule holds it with the same taint.
func (g *generator) overlaid() {
	n := g.node()
	g.alone()
	g.inForce(taintOfScene + `,` + poolOfScene + `,` + requiresA)
	g.add(Step{Do: "rule.create", Rule: otherRule, Value: `{"nodeSelector":{"matchLabels":{"example.com/rack":"s"}},` +
		`"enforcementMode":"continuous","existingNodes":"` + one(g, "None", "Idle") + `",` + taintOfScene +
		`,"conditions":[{"type":"example.com/B","requiredStatus":"True"}]}`}, Step{Do: "quiet"})
	g.passes(2)
	g.apart(n, "s")
	for p := 1; p <= MaxPods; p++ {
		g.add(Step{Do: "pod.create", Node: n, Pod: p, Value: "x"})
	}
	g.add(Step{Do: "quiet"})
	g.passes(660)
	g.then(Step{Do: "node.beat", Node: n}, Step{Do: "node.rack", Node: n, Value: "s"})
}

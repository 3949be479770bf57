// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// maxOthers is how many rules another controller has at most.
const maxOthers = 2

func init() {
	maps.Copy(words, map[string]string{
		"others.create":  "rule f%[2]d of another controller is created: %[6]s",
		"others.edit":    "rule f%[2]d of another controller is edited: %[6]s",
		"others.delete":  "rule f%[2]d of another controller is deleted",
		"others.crd":     "another controller's CRD is served in the versions %[6]s (gone: is deleted with all rules)",
		"others.reads":   "replica %[4]d: reads of another controller's rules: %[6]q; the watch ends (1): %[7]d",
		"others.taint":   "another controller puts the taint of its rule f%[2]d on n%[1]d",
		"others.untaint": "another controller removes the taint of its rule f%[2]d from n%[1]d",
	})
}

// beside lets another controller run in a part of the stories. It draws for itself, so that the other stories stay as
// they were.
func (g *generator) beside(seed uint64) {
	own := &generator{Rand: rand.New(rand.NewPCG(seed, 6)), nodes: g.nodes, rules: g.rules,
		script: &Script{Replicas: g.script.Replicas}}
	own.limiter = own
	if own.IntN(6) > 0 || g.script.Endpoints {
		return
	}
	g.script.Beside = true
	for range 3 + own.IntN(8) {
		own.script.Steps = nil
		if own.IntN(4) == 0 && !g.karpenter { // else new nodes would lack a NodeClaim
			own.handsBack()
		} else {
			own.others()
		}
		g.script.Steps = slices.Insert(g.script.Steps, own.IntN(len(g.script.Steps)), own.script.Steps...)
	}
	if own.IntN(3) > 0 { // else its CRD comes later, or never
		g.script.Steps = slices.Insert(g.script.Steps, 0, Step{Do: "others.crd", Value: own.versions()})
	}
}

func (g *generator) versions() string {
	return one(g, "v1alpha1", "v1alpha1", "v2,v1alpha1", "v2", "v1alpha1,v2")
}

// theirs is a spec of a rule of another controller.
func (g *generator) theirs() string {
	return fmt.Sprintf(`{"taint":{"key":%q,"value":"theirs","effect":%q},"dryRun":%t}`,
		one(g, "example.com/t1", "example.com/t1", "example.com/t2", "example.com/t3"),
		one(g, "NoSchedule", "NoSchedule", "NoSchedule", "NoExecute"), g.IntN(6) == 0)
}

// others is what another controller and its users do.
func (g *generator) others() {
	s := Step{Rule: 1 + g.IntN(maxOthers), Node: g.node()}
	switch g.IntN(12) {
	case 0, 1, 2:
		s.Do, s.Value = "others.create", g.theirs()
	case 3, 4:
		s.Do, s.Value = "others.edit", one(g, `{"dryRun":true}`, `{"dryRun":false}`, `{"taint":{"key":"example.com/t2"}}`,
			`{"taint":{"effect":"NoExecute"}}`, `{"taint":{"key":"example.com/t1","effect":"NoSchedule"}}`)
	case 5:
		s.Do = "others.delete"
	case 6:
		s.Do, s.Value = "others.crd", one(g, "gone", g.versions(), g.versions())
	case 7, 8:
		g.unreadable()
		return
	case 9:
		g.handsOver()
		return
	default:
		s.Do = one(g, "others.taint", "others.untaint", "others.untaint")
	}
	g.add(s)
	if g.IntN(2) == 0 {
		g.add(Step{Do: one(g, "quiet", "calm")})
	}
}

// unreadable lets the reads of a replica be late or fail for a while.
func (g *generator) unreadable() {
	r := g.replica()
	s := Step{Do: "others.reads", Replica: r, Value: one(g, "fail", "fail", "fail for specs", "late", "behind"), N: 1}
	if s.Value == "late" {
		s.N = g.IntN(2)
	}
	g.add(s, Step{Do: "calm"})
	for range 1 + g.IntN(4) {
		g.add(one(g, Step{Do: one(g, "kill", "up"), Replica: r}, Step{Do: "calm"}, Step{Do: "live", N: one(g, 4, 6, 12, 20)},
			Step{Do: "others.create", Rule: 1 + g.IntN(maxOthers), Value: g.theirs()},
			Step{Do: "others.delete", Rule: 1 + g.IntN(maxOthers)}))
	}
	g.add(Step{Do: "others.reads", Replica: r})
}

// handsOver is a user who hands a taint over: the other controller's rule comes first, and then that of Nodegate is
// deleted or edited. The watch of the other controller's rules is late.
func (g *generator) handsOver() {
	r, f := g.rule(), 1+g.IntN(maxOthers)
	const taint = `{"taint":{"key":"example.com/t1","effect":"NoSchedule"}}`
	g.add(Step{Do: "others.crd", Value: g.versions()}, Step{Do: "others.delete", Rule: f},
		Step{Do: "rule.edit", Rule: r, Value: taint}, Step{Do: "live", N: 6}, Step{Do: "quiet"})
	for r := range g.script.Replicas {
		g.add(Step{Do: "others.reads", Replica: r, Value: "late"})
	}
	g.add(Step{Do: "others.create", Rule: f, Value: taint}, one(g, Step{Do: "rule.delete", Rule: r},
		Step{Do: "rule.delete", Rule: r}, Step{Do: "rule.edit", Rule: r, Value: `{"dryRun":true}`},
		Step{Do: "rule.edit", Rule: r, Value: `{"taint":{"key":"example.com/t3"}}`}), Step{Do: "calm"})
	for r := range g.script.Replicas {
		g.add(Step{Do: "others.reads", Replica: r})
	}
}

// handsBack lets a limited rule hold new nodes, more than its limit. Another controller takes the taint over for a
// while, and removes it from some of them.
func (g *generator) handsBack() {
	r, f := g.rule(), 1+g.IntN(maxOthers)
	taint := fmt.Sprintf(`{"key":"example.com/t1","effect":%q}`, one(g, "NoSchedule", "NoSchedule", "NoExecute"))
	g.add(Step{Do: "crd", Value: "ours"}, Step{Do: "others.crd", Value: g.versions()}, Step{Do: "others.delete", Rule: f},
		Step{Do: "rule.create", Rule: r, Value: g.spec(r)}, Step{Do: "rule.edit", Rule: r, Value: fmt.Sprintf(
			`{"suspend":null,"dryRun":null,"requirements":null,"conditionPolicy":null,"limits":null,"maxUnavailable":%d,`+
				`"conditions":[{"type":"example.com/A","requiredStatus":"True"}],"timeout":null,"rearmOn":null,"taint":%s,`+
				`"nodeSelector":{"matchLabels":null,"matchExpressions":[{"key":"example.com/pool","operator":"Exists"}]}}`,
			one(g, 1, 1, 0), taint)}, Step{Do: "quiet"})
	for n := range g.nodes {
		g.add(Step{Do: "node.delete", Node: n + 1}, Step{Do: "node.create", Node: n + 1, Value: "a"})
	}
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: one(g, 1, 12)}, Step{Do: "others.create", Rule: f,
		Value: `{"taint":` + taint + `}`}, Step{Do: "live", N: 6}, Step{Do: one(g, "quiet", "calm")})
	for _, n := range g.Perm(g.nodes) {
		if g.IntN(5) > 0 {
			g.add(Step{Do: "others.untaint", Node: n + 1, Rule: f})
		}
	}
	if g.IntN(3) == 0 { // an API server does not serve the CRD for a moment
		for r := range g.script.Replicas {
			g.add(Step{Do: "others.reads", Replica: r, Value: "behind", N: 1})
		}
		g.add(Step{Do: "calm"}, Step{Do: "live", N: one(g, 4, 6)})
		for r := range g.script.Replicas {
			g.add(Step{Do: "others.reads", Replica: r})
		}
	}
	g.add(Step{Do: one(g, "calm", "calm", "kill", "handover"), Replica: g.replica()}, Step{Do: "live", N: 6},
		one(g, Step{Do: "others.delete", Rule: f}, Step{Do: "others.edit", Rule: f, Value: `{"dryRun":true}`},
			Step{Do: "others.edit", Rule: f, Value: `{"taint":{"key":"example.com/t4"}}`},
			Step{Do: "others.crd", Value: "gone"}), Step{Do: "live", N: one(g, 6, 16)}, Step{Do: "quiet"},
		Step{Do: "live", N: 12}, Step{Do: "quiet"})
}

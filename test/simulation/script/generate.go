// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"math/rand/v2"
	"slices"
)

// MaxNodes, MaxRules and MaxPods bound a story; MaxPods is for each node.
const (
	MaxNodes = 6
	MaxRules = 4
	MaxPods  = 2
	// MaxDaemons is how many DaemonSets there are: their pods have the numbers after MaxPods.
	MaxDaemons = 2
)

// generator draws a story.
type generator struct {
	*rand.Rand
	nodes, rules int
	karpenter    bool // it launches nodes
	actors       []weighted
	between      []int // where the steps of one actor end
	script       *Script
	limiter      *generator // chooses what is about limits, so that the rest of each story stays as it was
	last         bool       // its steps come last
}

// weighted is an actor with how often it acts.
type weighted struct {
	weight int
	act    func(*generator)
}

// Generate makes the story of a seed, of about so many steps.
func Generate(seed uint64, steps int) *Script {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), script: &Script{}}
	g.nodes, g.rules = 2+g.IntN(MaxNodes-1), 1+g.IntN(MaxRules)
	g.limiter = &generator{Rand: rand.New(rand.NewPCG(seed, 2)), nodes: g.nodes}
	g.script.Replicas, g.script.Webhooks = 1+g.IntN(2), g.IntN(3) > 0
	if g.IntN(4) == 0 {
		for range g.nodes {
			g.script.Skew = append(g.script.Skew, []int{0, 0, 0, -30, 40, 400, 4000}[g.IntN(7)])
		}
	}
	g.choose()
	for d := 1; d <= MaxDaemons && g.IntN(3) > 0; d++ {
		g.daemons(d)
	}
	for n := 1; n <= g.nodes; n++ {
		if g.IntN(4) > 0 {
			g.register(n)
		}
	}
	for g.IntN(3) > 0 && len(g.script.Steps) < 20 {
		g.reporters()
	}
	for r := 1; r <= g.rules; r++ {
		if g.IntN(4) > 0 {
			g.add(Step{Do: "rule.create", Rule: r, Value: g.spec(r)})
		}
	}
	scenes := g.scenes(seed)
	for len(g.script.Steps) < max(steps/2, steps-len(scenes.script.Steps)) {
		g.between = append(g.between, len(g.script.Steps))
		g.draw()
	}
	g.engine(seed)
	g.list(seed)
	g.rare(seed)
	g.endpoints(seed)
	g.queues(seed)
	g.insert(scenes)
	g.clocks(seed)
	g.beside(seed)
	g.group(seed)
	g.reads(seed)
	g.again(seed)
	return g.script
}

// engine says whether the policy taints nodes, and what new nodes bring that admission must look at. It draws for
// itself, so that the rest of the story stays the same.
func (g *generator) engine(seed uint64) {
	own := rand.New(rand.NewPCG(seed, 2))
	if g.script.Policy = own.IntN(2) == 0; g.script.Policy {
		g.script.Lag = []int{0, 0, 3, 20}[own.IntN(4)]
	}
	for i := range g.script.Steps {
		s := &g.script.Steps[i]
		if s.Do != "node.create" || s.Of != "" {
			continue
		}
		switch own.IntN(24) {
		case 0:
			s.Rule = 1 + own.IntN(g.rules)
		case 1:
			s.Pod = 1
		case 2:
			s.Pod = 2
		}
	}
	g.script.Unguarded = own.IntN(4) == 0
}

// list lets people edit and delete the list of the rules for admission in a part of the stories. It draws for itself,
// too.
func (g *generator) list(seed uint64) {
	own := rand.New(rand.NewPCG(seed, 3))
	for own.IntN(3) == 0 {
		step := Step{Do: "list.delete"}
		if own.IntN(3) > 0 {
			step = Step{Do: "list.edit", N: []int{0, 10, 100}[own.IntN(3)]}
		}
		g.script.Steps = slices.Insert(g.script.Steps, own.IntN(len(g.script.Steps)), step)
	}
}

func (g *generator) add(s ...Step) { g.script.Steps = append(g.script.Steps, s...) }

// choose says which actors take part: each seed leaves about a third out.
func (g *generator) choose() {
	g.actors = []weighted{{60, (*generator).machinery}, {12, (*generator).reporters}, {6, (*generator).time},
		{11, (*generator).fates}, {3, (*generator).watches}}
	for _, a := range []weighted{
		{3, (*generator).restarts}, {4, (*generator).reboots}, {4, (*generator).membership},
		{4, (*generator).edits}, {3, (*generator).deletion}, {3, (*generator).people}, {6, (*generator).pods},
		{1, (*generator).definition}, {3, (*generator).outages}, {3, (*generator).intruders},
		{3, (*generator).replacements}, {3, (*generator).crowds}, {2, (*generator).guards},
		{3, (*generator).oddities}, {3, (*generator).newcomers}, {3, (*generator).evidence},
		{3, (*generator).remediators}, {2, (*generator).hoarders},
		{3, (*generator).administrators}, {2, (*generator).patience},
		{1, (*generator).uninstalls}, {2, (*generator).latecomers}, {2, (*generator).upgrades}, {3, (*generator).races},
	} {
		if g.IntN(3) > 0 {
			g.actors = append(g.actors, a)
		}
	}
	if g.karpenter = g.IntN(4) == 0; g.karpenter {
		g.actors = append(g.actors, weighted{6, (*generator).claims})
	}
}

func (g *generator) draw() {
	total := 0
	for _, a := range g.actors {
		total += a.weight
	}
	n := g.IntN(total)
	for _, a := range g.actors {
		if n -= a.weight; n < 0 {
			a.act(g)
			return
		}
	}
}

func one[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

func (g *generator) pool() string   { return one(g, "a", "a", "a", "b") }
func (g *generator) rack() string   { return one(g, "a", "b", "") }
func (g *generator) node() int      { return 1 + g.IntN(g.nodes) }
func (g *generator) rule() int      { return 1 + g.IntN(g.rules) }
func (g *generator) replica() int   { return g.IntN(g.script.Replicas) }
func (g *generator) status() string { return one(g, "True", "True", "False", "Unknown") }
func (g *generator) kind() string {
	return one(g, "nodes", "nodes", "nodes", "nodereadinessrules", "nodereadinessrules", "pods",
		"customresourcedefinitions")
}

// daemons creates a DaemonSet. The second one does not tolerate all taints of rules.
func (g *generator) daemons(d int) {
	g.add(Step{Do: "daemon.create", Pod: d, N: one(g, 0, 0, 10), Value: one(g, "", "", "a"),
		Of: map[int]string{2: "example.com/t1,example.com/t2"}[d]})
}

// machinery moves what the operator does.
func (g *generator) machinery() {
	r := g.replica()
	switch g.IntN(12) {
	case 0, 1:
		g.add(Step{Do: "deliver", Replica: r, Of: g.kind(), N: one(g, 1, 2, -1)})
	case 2, 3, 4:
		g.add(Step{Do: "notify", Replica: r, Of: g.kind(), Rule: g.IntN(3), N: one(g, 1, 3, -1)})
	case 5, 6, 7:
		g.add(Step{Do: "work", Replica: r, N: g.IntN(8)})
	case 8, 9, 10:
		g.add(Step{Do: "answer", Replica: r, N: g.IntN(3), Of: "answered"})
	default:
		g.add(Step{Do: one(g, "calm", "quiet")})
	}
}

func (g *generator) reporters() {
	if g.IntN(5) == 0 {
		g.add(Step{Do: "node.beat", Node: g.node()})
		return
	}
	if g.IntN(40) == 0 { // the type of a condition that a rule may publish
		g.add(Step{Do: "node.report", Node: g.node(), Of: "P", Value: g.status()})
		return
	}
	if g.IntN(8) == 0 {
		g.add(Step{Do: "node.resource", Node: g.node(), N: one(g, 1, 1, 0)})
		return
	}
	g.add(Step{Do: "node.report", Node: g.node(), Of: one(g, "A", "A", "B"), Value: g.status()})
}

func (g *generator) time() { g.add(Step{Do: "pass", N: one(g, 1, 1, 5, 12, 30, 61, 130, 700)}) }

// intruders try what only the operator, or an administrator, may do.
func (g *generator) intruders() {
	switch n := g.node(); g.IntN(4) {
	case 0:
		if g.IntN(2) == 0 {
			g.add(Step{Do: "node.delete", Node: n})
		}
		g.add(Step{Do: "node.create", Node: n, Value: g.pool(), Of: "00000000-gone", N: g.IntN(2)},
			Step{Do: "node.taint", Node: n, Value: "example.com/foreign:NoExecute"})
	case 1:
		g.add(Step{Do: "node.label", Node: n, Value: g.pool(), Of: "kubelet"})
	default:
		g.add(Step{Do: "node.release", Node: n, Of: one(g, "kubelet", "cni"), N: g.IntN(2),
			Value: one(g, "nodegate.io/override", "readiness.k8s.io/bootstrap-completed-r1")})
	}
}

func (g *generator) membership() {
	switch n := g.node(); g.IntN(5) {
	case 0:
		g.add(Step{Do: "node.delete", Node: n})
	case 1, 2:
		g.register(n)
	default:
		g.add(Step{Do: "node.label", Node: n, Value: g.pool()})
		if g.limiter.IntN(2) == 0 {
			g.add(Step{Do: "node.rack", Node: n, Value: g.limiter.rack()})
		}
	}
}

func (g *generator) people() {
	switch n := g.node(); g.IntN(4) {
	case 0:
		g.add(Step{Do: "node.cordon", Node: n, Value: one(g, "true", "false")})
	case 1:
		g.add(Step{Do: "node.override", Node: n, Value: one(g, "", "", "Release", "Hold"), N: one(g, 0, 0, 5, 30)})
	case 2:
		g.add(Step{Do: "node.taint", Node: n, Value: one(g, "example.com/t1:NoSchedule", "example.com/foreign:NoExecute")})
	default:
		g.add(Step{Do: "node.untaint", Node: n, Value: one(g, "example.com/t1:NoSchedule", "example.com/foreign:NoExecute")})
	}
}

func (g *generator) pods() {
	n, p := g.node(), 1+g.IntN(MaxPods)
	switch g.IntN(6) {
	case 5:
		g.add(Step{Do: "pod.annotate", Node: n, Pod: p, Value: one(g, "yes", "yes", "no")})
	case 0, 1:
		g.add(Step{Do: "pod.create", Node: n, Pod: p, Value: one(g, "x", "x", "y"), N: g.IntN(2),
			Of: one(g, "", "", "probeless", "protected")})
	case 2, 3:
		g.add(Step{Do: "pod.ready", Node: n, Pod: p, Value: one(g, "true", "true", "false")})
	default:
		g.add(Step{Do: "pod.delete", Node: n, Pod: p})
	}
}

func (g *generator) definition() {
	if g.IntN(2) == 0 {
		g.add(Step{Do: "evidence", Value: one(g, "forbidden", "allowed")})
		if g.IntN(2) == 0 { // watches of pods list again, and something else happens to the nodes
			for r := range g.script.Replicas {
				g.add(Step{Do: "cut", Replica: r, Of: "pods"})
			}
			n := g.node()
			g.add(Step{Do: "calm"}, Step{Do: "node.delete", Node: n}, Step{Do: "calm"})
			g.register(n)
			g.reporters()
			g.add(Step{Do: "calm"}, Step{Do: "pass", N: one(g, 1, 12, 61)}, Step{Do: "calm"})
		}
		return
	}
	if g.IntN(3) == 0 { // a replica that starts meanwhile reads rules that lack fields
		r := g.replica()
		g.add(Step{Do: "crd", Value: "foreign"}, Step{Do: "kill", Replica: r}, Step{Do: "calm"},
			Step{Do: "crd", Value: "ours", N: g.IntN(2)})
		return
	}
	g.add(Step{Do: "crd", Value: one(g, "foreign", "ours", "ours"), N: g.IntN(2)})
}

func (g *generator) deletion() {
	r := g.rule()
	g.add(Step{Do: one(g, "rule.delete", "rule.create"), Rule: r, Value: g.spec(r)})
}

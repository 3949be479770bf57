// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"slices"
)

// year is a year in seconds.
const year = 365 * 24 * 3600

// oddities are values that the API server accepts, and that only a careless reporter writes.
func (g *generator) oddities() {
	switch s := (Step{Do: "node.report", Node: g.node(), Of: one(g, "A", "A", "A", "B"), Value: g.status()}); g.IntN(3) {
	case 0:
		s.Of, s.Value = one(g, "A", "A", "A", "B", "P"), one(g, "true", "false", "TRUE", "")
		g.add(s)
	case 1: // times of long ago, or far ahead
		s.N = one(g, -20*year, -3600, 3600, 20*year)
		g.add(s)
	default:
		if g.IntN(2) == 0 {
			g.add(Step{Do: "rule.edit", Rule: g.rule(), Value: `{"suspend":null,"dryRun":null,"requirements":null,` +
				`"conditions":[{"type":"example.com/A","requiredStatus":"True","maxAgeSeconds":900}]}`})
		}
		with := s
		s.Pod = 1 // without a heartbeat, after one with it that is much younger than the transition
		g.add(with, Step{Do: "pass", N: 700}, Step{Do: "quiet"}, Step{Do: "pass", N: 130}, with, Step{Do: "quiet"}, Step{
			Do: "pass", N: 61}, s, Step{Do: "quiet"}, Step{Do: "pass", N: one(g, 12, 61, 700)})
	}
	if g.IntN(2) == 0 {
		g.add(Step{Do: "quiet"})
	}
}

// newcomers are nodes that register while the operator cannot read evidence, and rules say that they are not in force.
func (g *generator) newcomers() {
	n := g.node()
	if g.IntN(2) == 0 {
		g.add(Step{Do: "evidence", Value: "forbidden"})
	}
	g.add(Step{Do: "calm"}, Step{Do: "pass", N: one(g, 1, 5, 35)}, Step{Do: "quiet"}, Step{Do: "node.delete", Node: n})
	g.register(n)
	g.add(Step{Do: "evidence", Value: "allowed"})
}

// remediators cordon or delete nodes that are held, one after the other.
func (g *generator) remediators() {
	if g.IntN(3) == 0 {
		g.add(Step{Do: one(g, "node.remedy", "node.finish"), Node: g.node(), Of: one(g, "", "cordon", "terminate"),
			Value: g.pool()})
		return
	}
	if g.IntN(2) == 0 {
		g.add(Step{Do: "rule.edit", Rule: g.rule(), Value: g.limiter.crowdLimit(2) + `"suspend":null,"dryRun":null,` +
			`"requirements":null,"existingNodes":null,"conditions":[{"type":"example.com/A","requiredStatus":"True"}]}`})
	}
	for n := range g.nodes {
		g.add(Step{Do: "node.report", Node: n + 1, Of: "A", Value: "True"})
	}
	g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 12}, Step{Do: "quiet"})
	for _, n := range g.Perm(g.nodes) {
		g.add(Step{Do: "node.report", Node: n + 1, Of: "A", Value: "False"}, Step{Do: "pass", N: one(g, 1, 12)},
			Step{Do: "quiet"})
		if g.IntN(6) == 0 {
			for r := range g.script.Replicas {
				g.add(Step{Do: "down", Replica: r})
			}
		}
		g.add(Step{Do: "node.remedy", Node: n + 1, Value: g.pool(), Of: one(g, "", "", "", "cordon", "terminate")},
			Step{Do: one(g, "calm", "calm", "quiet")})
		if g.IntN(4) == 0 {
			g.add(Step{Do: "node.finish", Node: n + 1})
		}
		if g.IntN(4) == 0 {
			g.add(Step{Do: one(g, "kill", "kill", "up"), Replica: g.replica()}, Step{Do: "quiet"})
		}
	}
}

// hoarders fill annotations of nodes, and report boot IDs that would fill them.
func (g *generator) hoarders() {
	n := g.node()
	if g.IntN(2) == 0 {
		g.add(Step{Do: "node.reboot", Node: n, N: one(g, 60, 300, 4000)})
		return
	}
	g.add(Step{Do: "node.fill", Node: n, N: one(g, 0, 0, 60, 150, 300, 4000)}, Step{Do: "node.report", Node: n, Of: "A",
		Value: g.status()}, Step{Do: one(g, "calm", "quiet")})
}

// tampered is what administrators write into a record. The times are those of the story, long gone, or far ahead.
func tampered(g *generator) string {
	at := one(g, "2026-01-02T03:00:30Z", "2026-01-02T03:00:30Z", "1970-01-01T00:00:00Z", "2046-01-01T00:00:00Z")
	return one(g, "", "", "", "{}", "garbage", `{"taint":7}`, `{"rule":"other","taint":"example.com/t1"}`,
		`{"taint":"example.com/t1=:NoSchedule","since":"`+at+`"}`, `{"taint":"example.com/t2=v1:NoExecute"}`,
		`{"since":"`+at+`","released":"`+at+`"}`, `{"released":"`+at+`"}`, `{"guardedSince":"`+at+`"}`,
		`{"timedOut":"`+at+`"}`, `{"existing":true,"limited":true}`, `{"bootID":"boot-9","rearmedAt":"`+at+`"}`,
		`{"published":"Ready"}`, `{"mark":"example.com/replace-r1=true"}`)
}

// plainly begins an edit of a rule so that only a condition decides.
const plainly = `{"suspend":null,"dryRun":null,"requirements":null,"enforcementMode":"continuous","rearmOn":null,` +
	`"conditionPolicy":null,"existingNodes":null,"maxUnavailable":null,"stabilization":null,` +
	`"conditions":[{"type":"example.com/A","requiredStatus":"True"}]`

// administrators edit and delete what the operator keeps on nodes.
func (g *generator) administrators() {
	r := g.rule()
	s := Step{Do: "node.tamper", Rule: r, Of: "record", Value: tampered(g)}
	nodes := g.Perm(g.nodes)
	switch g.IntN(6) {
	case 0:
		s.Of, s.Value = "marker", one(g, "", "", fmt.Sprintf(`{"rule-name":"r%d"}`, r))
	case 1: // of nodes that have never been ready
		s.Of, s.Value = "mark", one(g, "", "mine")
		g.add(Step{Do: "rule.edit", Rule: r, Value: plainly + `,"timeout":{"seconds":60,"appearSeconds":null,"action":` +
			`"Replace","replace":` + g.replace(r, true) + `}}`}, Step{Do: "node.delete", Node: nodes[0] + 1})
		g.register(nodes[0] + 1)
		g.add(Step{Do: "quiet"}, Step{Do: "pass", N: 61}, Step{Do: "quiet"}, Step{Do: "pass", N: 31}, Step{Do: "quiet"})
	case 2:
		s.Of = "completion"
	case 3: // held from a time that is far ahead
		g.add(Step{Do: "rule.edit", Rule: r, Value: plainly + `,"timeout":{"seconds":60,"action":"Release","replace":null},` +
			`"taint":{"key":"example.com/t4","value":"","effect":"NoSchedule"}}`},
			Step{Do: "node.report", Node: nodes[0] + 1, Of: "A", Value: "False"}, Step{Do: "calm"})
		s.Value = `{"taint":"example.com/t4=:NoSchedule","since":"2046-01-01T00:00:00Z"}`
	default:
		nodes = nodes[:1+g.IntN(2)]
	}
	for _, n := range nodes {
		s.Node = n + 1
		g.add(s)
	}
	g.add(Step{Do: one(g, "calm", "quiet", "begin"), Replica: g.replica()})
	if g.IntN(2) == 0 {
		g.add(Step{Do: "node.report", Node: nodes[0] + 1, Of: "A", Value: g.status()}, Step{Do: "quiet"})
	}
}

// patience edits the timeout and the limit of a rule while it holds nodes.
func (g *generator) patience() {
	r := g.rule()
	g.add(Step{Do: "rule.edit", Rule: r, Value: `{"timeout":{"seconds":60,"appearSeconds":null,"replace":null,"action":"` +
		one(g, "Keep", "Release") + `"},"suspend":null,"dryRun":null,"requirements":null,"enforcementMode":"continuous",` +
		`"rearmOn":null,"conditionPolicy":null,"conditions":[{"type":"example.com/A","requiredStatus":"True"}]}`},
		Step{Do: "quiet"})
	for range 1 + g.IntN(2) {
		g.add(Step{Do: "node.report", Node: g.node(), Of: "A", Value: one(g, "False", "False", "True")})
	}
	for range 2 + g.IntN(2) {
		g.add(Step{Do: "calm"}, Step{Do: "pass", N: one(g, 12, 30, 61, 130)}, Step{Do: one(g, "quiet", "begin"),
			Replica: g.replica()}, Step{Do: "rule.edit", Rule: r, Value: one(g, `{"timeout":{"seconds":30}}`,
			`{"timeout":{"seconds":200}}`, `{"timeout":{"action":"Keep","replace":null}}`,
			`{"timeout":{"action":"Release","replace":null}}`, `{"timeout":{"action":"Release","replace":null}}`,
			fmt.Sprintf(`{"timeout":{"seconds":6000,"action":"Replace","replace":%s}}`, g.replace(r, true)),
			`{"timeout":{"appearSeconds":20}}`, `{"maxUnavailable":1}`, `{"maxUnavailable":"50%"}`,
			`{"maxUnavailable":null}`)})
	}
	g.add(Step{Do: "quiet"})
}

// uninstalls delete the CRD with all rules, and install it again.
func (g *generator) uninstalls() {
	g.add(Step{Do: "crd", Value: "gone"}, Step{Do: one(g, "begin", "calm", "settle", "kill", "down"),
		Replica: g.replica()})
	g.reporters()
	g.add(Step{Do: "calm"}, Step{Do: "pass", N: one(g, 1, 61, 700)}, Step{Do: "calm"}, Step{Do: "crd", Value: "ours"})
	for r := range g.script.Replicas {
		g.add(Step{Do: "up", Replica: r})
	}
	for r := 1; r <= g.rules; r++ {
		g.add(Step{Do: "rule.create", Rule: r, Value: g.spec(r)})
	}
	g.add(Step{Do: "quiet"})
}

// latecomers are nodes that register in a pool that hardly any rule selects, and get into another one when they are
// older. Perhaps a rule is put in force in the meantime.
func (g *generator) latecomers() {
	n, r := g.node(), g.rule()
	g.add(Step{Do: "node.delete", Node: n}, Step{Do: "claim.delete", Node: n},
		Step{Do: "node.create", Node: n, Value: "c"}, Step{Do: "quiet"}, Step{Do: "pass", N: one(g, 1, 61, 700)})
	if g.IntN(3) == 0 { // the rule is in force later than the node is there
		g.add(Step{Do: "rule.edit", Rule: r, Value: `{"suspend":true}`}, Step{Do: "quiet"}, Step{Do: "pass", N: 2})
	}
	g.add(Step{Do: "rule.edit", Rule: r, Value: `{"nodeSelector":{"matchLabels":{"example.com/pool":"a"},` +
		`"matchExpressions":null},"suspend":null,"dryRun":null,"nodeAdmission":null}`}, Step{Do: "node.beat", Node: n},
		Step{Do: "quiet"}, Step{Do: "node.label", Node: n, Value: "a"})
}

// upgrades are those from an earlier version of the operator, or back from a later one, while rules hold nodes.
func (g *generator) upgrades() {
	at := len(g.script.Steps)
	g.crowds()
	at += g.IntN(len(g.script.Steps) - at + 1)
	g.script.Steps = slices.Insert(g.script.Steps, at, Step{Do: one(g, "quiet", "calm")},
		Step{Do: "upgrade", Of: one(g, "earlier", "earlier", "later")}, Step{Do: "calm"})
}

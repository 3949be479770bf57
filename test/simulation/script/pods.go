// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

// appX selects the pods of most scenes.
const appX = `"selector":{"matchLabels":{"app":"x"}}`

// expressX selects the same pods in another way.
const expressX = `"selector":{"matchExpressions":[{"key":"app","operator":"In","values":["x"]},` +
	`{"key":"app","operator":"NotIn","values":["y"]},{"key":"app","operator":"Exists"},` +
	`{"key":"other","operator":"DoesNotExist"}]},` +
	`"readyWhen":"PodReady"`

// requiresPods is the part of a rule's spec that requires pods.
func requiresPods(q string) string {
	return taintOfScene + `,"requirements":[{"name":"pods","pods":{"namespace":"apps",` + q + `}}]`
}

// podsOf requires pods, and lets two of them be created on a new node, which are not ready yet.
func (g *generator) podsOf(n int, spec, kind string) {
	g.inForce(spec)
	g.fresh(n)
	for p := 1; p <= MaxPods; p++ {
		g.add(Step{Do: "pod.create", Node: n, Pod: p, Value: "x", Of: kind})
	}
	g.add(Step{Do: "quiet"})
}

func ready(n, p int, status string) Step {
	return Step{Do: "pod.ready", Node: n, Pod: p, Value: status}
}

// probeless are pods that are ready as soon as they have started: they count ten seconds later, also after a restart.
func (g *generator) probeless(n int) {
	g.podsOf(n, requiresPods(appX+one(g, "", "", `,"minReady":2`)), "probeless")
	g.add(ready(n, 2, "true"))
	g.then(ready(n, 1, "true"))
	g.passes(4, 12)
	if g.IntN(2) == 0 {
		g.add(ready(n, 2, "false"))
		g.then(ready(n, 1, "false"), ready(n, 1, "true"))
		g.passes(4, 12)
	}
}

// ripens is a pod that must have been ready for a time.
func (g *generator) ripens(n int) {
	g.podsOf(n, requiresPods(appX+`,"minReadySeconds":`+one(g, "0", "20", "20", "40")), one(g, "", "", "probeless"))
	g.then(ready(n, 1, "true"))
	g.passes(8)
	if g.IntN(3) == 0 {
		g.then(ready(n, 1, "false"), ready(n, 1, "true"))
	}
	g.passes(14, 22)
}

const annotation = `,"readyAnnotation":{"key":"example.com/ready","value":"yes"}`

// annotated is a pod that counts by its annotation only.
func (g *generator) annotated(n int) {
	g.podsOf(n, requiresPods(appX+`,"readyWhen":"Annotation"`+annotation), "")
	says := func(value string) Step { return Step{Do: "pod.annotate", Node: n, Pod: 1, Value: value} }
	g.then(says("no"), ready(n, 1, "true"), says("yes"), says("no"))
}

// either is a pod that counts by its condition or its annotation.
func (g *generator) either(n int) {
	g.podsOf(n, requiresPods(appX+`,"readyWhen":"PodReadyOrAnnotation"`+annotation), "")
	says := func(value string) Step { return Step{Do: "pod.annotate", Node: n, Pod: 1, Value: value} }
	if g.IntN(2) == 0 {
		g.then(says("no"))
	}
	g.then(ready(n, 1, "true"), says("yes"), ready(n, 1, "false"), says("no"))
}

// owned are pods of two DaemonSets, of which only one counts.
func (g *generator) owned(n int) {
	g.inForce(requiresPods(`"selector":{"matchLabels":{"app":"daemon"}},"ownerDaemonSet":"d1"`))
	g.fresh(n)
	for d := 1; d <= MaxDaemons; d++ {
		g.add(Step{Do: "daemon.create", Pod: d}, Step{Do: "daemon.sync", Pod: d}, ready(n, MaxPods+d, "false"))
	}
	g.add(Step{Do: "quiet"})
	g.then(ready(n, MaxPods+2, "true"), ready(n, MaxPods+1, "true"), one(g, ready(n, MaxPods+1, "false"),
		Step{Do: "daemon.sync", Pod: 1, Of: "rollout"}, Step{Do: "pod.delete", Node: n, Pod: MaxPods + 1}))
}

// unlisted are pods that cannot be read any more, while another node registers.
func (g *generator) unlisted(n int) {
	g.podsOf(n, requiresPods(expressX)+`,"nodeAdmission":"None"`, "")
	g.then(ready(n, 1, "true"))
	g.add(Step{Do: "evidence", Value: "forbidden"})
	g.each(Step{Do: "cut", Of: "pods"})
	g.add(Step{Do: "calm"})
	g.fresh(g.next(n))
	g.add(Step{Do: "calm"}, Step{Do: "pass", N: one(g, 1, 12)}, Step{Do: "calm"}, Step{Do: "evidence", Value: "allowed"},
		Step{Do: "quiet"})
}

// confirms lets so much time pass after a reboot that all pods which are ready count.
func (g *generator) confirms(n int) {
	for _, seconds := range []int{130, 700} {
		g.add(Step{Do: "pass", N: seconds}, Step{Do: "node.beat", Node: n}, Step{Do: "quiet"})
	}
}

// unseen is a reboot while no operator runs: pods have started before kubelet's first report that the operator sees.
func (g *generator) unseen(n int) {
	g.podsOf(n, requiresPods(expressX)+`,"rearmOn":["Reboot"]`, "")
	g.then(ready(n, 1, "true"))
	g.passes(12)
	g.each(Step{Do: "down"})
	g.add(Step{Do: "node.reboot", Node: n}, ready(n, 1, "true"), Step{Do: "pass", N: one(g, 5, 30)},
		Step{Do: "node.beat", Node: n})
	g.runs()
	g.add(Step{Do: "quiet"})
	g.confirms(n)
}

// rehearsal is a reboot under a rule in dry-run.
func (g *generator) rehearsal(n int) {
	g.podsOf(n, requiresPods(expressX)+`,"rearmOn":["Reboot"]`, "")
	g.then(ready(n, 1, "true"), Step{Do: "rule.edit", Rule: sceneRule, Value: `{"dryRun":true}`},
		Step{Do: "node.reboot", Node: n})
	g.add(Step{Do: "pass", N: 5})
	g.then(ready(n, 1, "true"), Step{Do: "node.beat", Node: n})
	g.confirms(n)
}

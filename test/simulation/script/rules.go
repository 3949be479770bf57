// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// Expressions are those of rules. One of them fails where the node has no such annotation, one without the label.
var Expressions = []string{
	`node.metadata.labels["example.com/pool"].matches("^(a|b)$")`,
	`node.status.conditions.exists(c, c.type == "example.com/B" && c.status == "True")`,
	`node.metadata.annotations["nodegate.io/maintenance"] != "true"`,
}

// refused are expressions that no rule may have.
var refused = []string{
	`node.metadata.`, `node.metadata.name.replace("n", "m") == "m1"`,
	`node.metadata.name.matches(node.metadata.labels["example.com/pool"])`, `node.metadata.name.matches("n{999}")`,
}

func (g *generator) edits() {
	patch := one(g,
		fmt.Sprintf(`{"requirements":[{"name":"node","cel":{"expression":%q}}]}`, one(g, refused...)),
		`{"dryRun":true}`, `{"dryRun":null}`, `{"suspend":true}`, `{"suspend":null}`,
		strings.TrimSuffix(g.limiter.crowdLimit(1), ",")+"}", `{"maxUnavailable":null,"limits":null}`,
		`{"taint":{"key":"example.com/t2"}}`, `{"taint":{"value":"v2"}}`,
		`{"nodeSelector":{"matchLabels":{"example.com/pool":"b"}}}`,
		`{"nodeSelector":{"matchLabels":{"example.com/pool":"a"}}}`,
		`{"conditions":[{"type":"example.com/B","requiredStatus":"True"}]}`,
		`{"requirements":[{"name":"pods","pods":{"namespace":"apps",`+
			`"selector":{"matchExpressions":[{"key":"app","operator":"In","values":["x"]}]}}}]}`,
		`{"requirements":[{"name":"pods","pods":{"namespace":"apps",`+
			`"selector":{"matchExpressions":[{"key":"app","operator":"In","values":["not valid!"]}]}}}]}`,
		`{"evictionGuard":{"maxHoldSeconds":60}}`, `{"evictionGuard":null}`,
		`{"publish":{"conditionType":"example.com/P"}}`, `{"publish":null}`, `{"requirements":null}`)
	if g.IntN(14) == 0 {
		patch = fmt.Sprintf(`{"requirements":[{"name":"other","ruleSatisfied":{"name":"r%d"}}]}`, g.rule())
	}
	g.add(Step{Do: "rule.edit", Rule: g.rule(), Value: patch})
}

// selector selects a pool in one of several ways.
func (g *generator) selector() any {
	type object = map[string]any
	const key = "example.com/pool"
	expressions := func(e object) object { return object{"matchExpressions": []any{e}} }
	switch pool := one(g, "a", "a", "b"); g.IntN(12) {
	case 0:
		return expressions(object{"key": key, "operator": "In", "values": []any{pool}})
	case 1:
		return expressions(object{"key": key, "operator": "NotIn", "values": []any{pool}})
	case 2:
		return expressions(object{"key": key, "operator": "Exists"})
	case 3:
		return expressions(object{"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"})
	default:
		return object{"matchLabels": object{key: pool}}
	}
}

// spec is a rule's spec.
func (g *generator) spec(rule int) string {
	type object = map[string]any
	spec := object{"nodeSelector": g.selector()}
	if g.IntN(10) > 0 {
		spec["taint"] = object{"key": one(g, "example.com/t1", "example.com/t1", "example.com/t2", "example.com/t3"),
			"value":  one(g, "", "v1"),
			"effect": one(g, "NoSchedule", "NoSchedule", "NoSchedule", "NoExecute", "NoExecute", "PreferNoSchedule")}
	}
	bootstrap := g.IntN(4) == 0
	spec["enforcementMode"] = "continuous"
	if bootstrap {
		spec["enforcementMode"] = "bootstrap-only"
	}
	if g.IntN(3) == 0 {
		spec["evictionGuard"] = object{"maxHoldSeconds": one(g, 20, 60, 600)}
	}
	condition := object{"type": one(g, "example.com/A", "example.com/A", "example.com/B", "Ready"),
		"requiredStatus": one(g, "True", "True", "True", "True", "False", "Unknown")}
	if g.IntN(5) == 0 {
		condition["maxAgeSeconds"] = 900
	}
	if !bootstrap && g.IntN(6) == 0 {
		condition["defaultStatus"] = one(g, "True", "False", "Unknown")
	}
	spec["conditions"] = []any{condition}
	if g.limiter.IntN(5) == 0 {
		g.another(spec, condition, bootstrap)
	}
	if g.IntN(3) == 0 {
		spec["requirements"] = []any{g.requirement()}
		if g.IntN(3) > 0 {
			delete(spec, "conditions")
		} else if !bootstrap && g.IntN(3) == 0 {
			spec["conditionPolicy"] = one(g, "anyOf", "anyOf", "allOf")
		}
	}
	g.options(spec)
	g.allowed(spec)
	if g.IntN(4) == 0 && spec["taint"] != nil {
		spec["timeout"] = object{"seconds": 60, "action": "Replace", "replace": json.RawMessage(g.replace(rule, false))}
	}
	if limit, limited := spec["maxUnavailable"]; limited && g.limiter.IntN(3) == 0 {
		delete(spec, "maxUnavailable")
		spec["limits"] = json.RawMessage(g.limiter.limits(limit))
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// allowed makes a spec one that the API server accepts.
func (g *generator) allowed(spec map[string]any) {
	taint, tainted := spec["taint"].(map[string]any)
	if raw, err := json.Marshal(spec["requirements"]); err == nil && strings.Contains(string(raw), "daemonSets") {
		spec["maxUnavailable"] = one(g, 1, 2)
		if tainted {
			taint["effect"] = one(g, "NoSchedule", "NoSchedule", "PreferNoSchedule")
		}
	}
	if tainted && taint["effect"] == "PreferNoSchedule" {
		delete(spec, "podAdmission")
	}
}

// another gives a rule another condition.
func (g *generator) another(spec, condition map[string]any, bootstrap bool) {
	second := map[any]string{"example.com/A": "example.com/B"}[condition["type"]]
	spec["conditions"] = []any{condition,
		map[string]any{"type": cmp.Or(second, "example.com/A"), "requiredStatus": "True"}}
	if policy := []string{"anyOf", "allOf"}; !bootstrap {
		if at := g.limiter.IntN(4); at < len(policy) {
			spec["conditionPolicy"] = policy[at]
		}
	}
}

// limits are a limit of all nodes, and of those of each rack.
func (g *generator) limits(of any) string {
	all, err := json.Marshal(of)
	if err != nil {
		panic(err)
	}
	zones := one(g, "", "", `{"maxDomains":2,`+zoneLimit+`,`)
	return fmt.Sprintf(`[{"max":%s},%s%s%s]`, all, zones, one(g, "", "", `{"max":1,"withinSeconds":60},`,
		`{"max":2,"withinSeconds":600},`), one(g, `{"max":1,"per":"example.com/rack"}`,
		`{"max":1,"per":"example.com/rack"}`, `{"max":"50%","per":"example.com/rack"}`,
		`{"maxDomains":1,"per":"example.com/rack"}`))
}

// crowdLimit begins a patch of a rule with a limit.
func (g *generator) crowdLimit(of int) string {
	if g.IntN(2) == 0 {
		return fmt.Sprintf(`{"maxUnavailable":null,"limits":%s,`, g.limits(of+1))
	}
	return fmt.Sprintf(`{"limits":null,"maxUnavailable":%d,`, of)
}

// requirement is evidence that the operator gathers itself.
func (g *generator) requirement() any {
	type object = map[string]any
	switch g.IntN(12) {
	case 8:
		return object{"name": "driver", "csiDriver": g.some(object{"name": "csi.example.com"},
			object{"name": "csi.example.com", "minAllocatable": 5})}
	case 9:
		return object{"name": "devices", "devices": object{"driver": "gpu.example.com", "min": one(g, 1, 2)}}
	case 10, 11:
		return object{"name": "daemons", "daemonSets": g.daemonSets()}
	case 0:
		return object{"name": "gpu", "resource": object{"name": "example.com/gpu", "min": "1"}}
	case 1, 2:
		return object{"name": "other", "ruleSatisfied": object{"name": fmt.Sprintf("r%d", 1+g.IntN(MaxRules))}}
	case 4: // the taint of another component: people add and remove it
		return object{"name": "starting", "noTaint": object{"key": "example.com/foreign",
			"effect": one(g, "NoSchedule", "NoExecute", "PreferNoSchedule")}}
	case 3:
		return object{"name": "node", "cel": object{"expression": one(g, Expressions...)}}
	}
	return object{"name": "pods", "pods": g.podsRequirement()}
}

func (g *generator) some(of ...any) any { return one(g, of...) }

// daemonSets requires DaemonSets, all or some.
func (g *generator) daemonSets() any {
	type object = map[string]any
	out := object{"namespaces": []any{"apps"}}
	expressions := func(e object) object { return object{"matchExpressions": []any{e}} }
	maybe := func(key string, value any) {
		if g.IntN(3) == 0 || key == "selector" && g.IntN(4) > 0 {
			out[key] = value
		}
	}
	labelled := object{"matchLabels": object{"daemon": "d1"}}
	maybe("selector", g.some(labelled, labelled, expressions(object{"key": "daemon",
		"operator": one(g, "In", "In", "NotIn"), "values": []any{"d1"}}), expressions(object{"key": "daemon",
		"operator": one(g, "In", "NotIn"), "values": []any{"d2"}}), expressions(object{"key": "daemon",
		"operator": "Exists"}), expressions(object{"key": "other", "operator": "DoesNotExist"})))
	maybe("exclude", []any{object{"namespace": "apps", "name": "d2"}})
	maybe("minMatching", one(g, 1, 2))
	maybe("minReadySeconds", one(g, 0, 5, 20))
	maybe("untolerated", one(g, "Ignore", "Hold", "Hold"))
	maybe("disruptionSeconds", one(g, 0, 0, 10, 60))
	return out
}

// evidence edits a rule so that it requires evidence of a kind, and moves this evidence.
func (g *generator) evidence() {
	n, r := g.node(), g.rule()
	edit := func(requirement any) {
		raw, err := json.Marshal(map[string]any{"requirements": []any{requirement}, "conditions": nil, "suspend": nil,
			"dryRun": nil, "conditionPolicy": nil, "existingNodes": nil, "limits": nil, "maxUnavailable": one(g, 1, 2)})
		if err != nil {
			panic(err)
		}
		if g.IntN(3) > 0 {
			g.add(Step{Do: "rule.edit", Rule: r, Value: string(raw)})
		}
	}
	type object = map[string]any
	var move func() []Step
	switch g.IntN(5) {
	case 0:
		edit(object{"name": "driver", "csiDriver": g.some(object{"name": "csi.example.com"},
			object{"name": "csi.example.com", "minAllocatable": 5})})
		move = func() []Step { return []Step{{Do: "node.driver", Node: n, N: one(g, -1, 0, 3, 8)}} }
	case 1:
		edit(object{"name": "devices", "devices": object{"driver": "gpu.example.com", "min": one(g, 1, 2)}})
		move = func() []Step {
			return []Step{{Do: "node.devices", Node: n, N: one(g, 0, 1, 2, 3), Of: one(g, "", "", "tainted", "in part")}}
		}
	case 2:
		edit(object{"name": "pods", "pods": g.podsRequirement()})
		g.add(Step{Do: "pod.create", Node: n, Pod: 1, Value: "x"}, Step{Do: "pod.create", Node: n, Pod: 2, Value: "x"})
		move = func() []Step {
			return []Step{{Do: "pod.ready", Node: n, Pod: one(g, 1, 2), Value: one(g, "true", "true", "false")},
				{Do: "pod.annotate", Node: n, Pod: 1, Value: one(g, "yes", "no")}}
		}
	case 3:
		edit(object{"name": "node", "cel": object{"expression": one(g, Expressions...)}})
		move = func() []Step {
			return []Step{one(g, Step{Do: "node.maintain", Node: n, Value: one(g, "true", "")},
				Step{Do: "node.report", Node: n, Of: "B", Value: g.status()})}
		}
	default:
		edit(object{"name": "daemons", "daemonSets": g.daemonSets()})
		move = func() []Step { return g.moveDaemons(n) }
	}
	for range 2 + g.IntN(3) {
		g.add(move()...)
		g.add(Step{Do: "pass", N: one(g, 1, 5, 12, 30)}, Step{Do: "quiet"})
	}
}

// moveDaemons lets something happen to a DaemonSet and its pods, most of all on one node.
func (g *generator) moveDaemons(n int) []Step {
	d := 1 + g.IntN(MaxDaemons)
	sync := Step{Do: "daemon.sync", Pod: d, N: one(g, 0, 0, n), Of: one(g, "", "", "rollout")}
	switch g.IntN(8) {
	case 0:
		return []Step{{Do: "daemon.edit", Pod: d, N: one(g, 0, 10)}}
	case 1:
		return []Step{{Do: "daemon.delete", Pod: d}}
	case 2:
		g.daemons(d)
		return []Step{sync}
	case 3:
		return []Step{{Do: "pod.ready", Node: n, Pod: MaxPods + d, Value: "false"}}
	case 4:
		return []Step{{Do: "pod.delete", Node: n, Pod: MaxPods + d}}
	}
	out := []Step{sync}
	for node := 1; node <= g.nodes; node++ {
		out = append(out, Step{Do: "pod.ready", Node: node, Pod: MaxPods + d, Value: "true"})
	}
	return out
}

// podsRequirement requires pods by their labels, and in one of several ways to be ready.
func (g *generator) podsRequirement() any {
	type object = map[string]any
	expressions := func(e object) object { return object{"matchExpressions": []any{e}} }
	out := object{"namespace": "apps"}
	switch g.IntN(9) {
	case 0:
		out["selector"] = expressions(object{"key": "app", "operator": "NotIn", "values": []any{one(g, "x", "y")}})
	case 1:
		out["selector"] = expressions(object{"key": "app", "operator": "Exists"})
	case 2:
		out["selector"] = expressions(object{"key": "other", "operator": "DoesNotExist"})
	default:
		out["selector"] = object{"matchLabels": object{"app": one(g, "x", "x", "y")}}
	}
	switch g.IntN(8) {
	case 0:
		out["minReady"] = 2
	case 1:
		out["minReadySeconds"] = one(g, 0, 10, 30)
	case 6:
		out["selector"], out["ownerDaemonSet"] = object{"matchLabels": object{"app": "daemon"}}, one(g, "d1", "d2")
	case 2, 3:
		out["readyWhen"] = one(g, "PodReady", "Annotation", "PodReadyOrAnnotation")
		if out["readyWhen"] != "PodReady" {
			out["readyAnnotation"] = object{"key": "example.com/ready", "value": "yes"}
		}
	}
	return out
}

// options adds what a rule may have besides.
func (g *generator) options(spec map[string]any) {
	maybe := func(of int, key string, value any) {
		if g.IntN(of) == 0 {
			spec[key] = value
		}
	}
	maybe(4, "rearmOn", []any{"Reboot"})
	maybe(3, "existingNodes", one(g, "None", "None", "Idle", "All"))
	maybe(3, "maxUnavailable", one[any](g, 1, "50%", 0))
	maybe(3, "stabilization", one(g, map[string]any{"readySeconds": 10}, map[string]any{"unreadySeconds": 10},
		map[string]any{"readySeconds": 30, "unreadySeconds": 30}, map[string]any{"minHoldSeconds": 30}))
	maybe(5, "timeout", map[string]any{"seconds": 60, "action": one(g, "Release", "Keep")})
	maybe(20, "timeout", map[string]any{"seconds": 60, "appearSeconds": 20, "action": one(g, "Release", "Keep")})
	maybe(6, "nodeAdmission", one(g, "None", "Taint"))
	maybe(8, "dryRun", one(g, true, true, false))
	maybe(8, "suspend", one(g, true, true, false))
	maybe(12, "health", map[string]any{"checks": []any{map[string]any{"name": "node_ready"}}})
	maybe(20, "probes", []any{map[string]any{"conditionType": "example.com/Kubelet", "check": "kubelet"}})
	maybe(6, "completionAnnotation", "example.com/completed")
	maybe(4, "publish", map[string]any{"conditionType": one(g, "example.com/P", "example.com/P", "example.com/Q")})
	if spec["taint"] == nil {
		maybe(2, "publish", map[string]any{"conditionType": one(g, "example.com/P", "example.com/Q")})
		maybe(2, "evictionGuard", map[string]any{"maxHoldSeconds": 60})
	} else {
		maybe(6, "podAdmission", one(g, "Deny", "Deny", "None"))
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"encoding/json"
	"fmt"
)

// Expressions are those of rules. One of them fails where the node has no such annotation.
var Expressions = []string{
	`node.status.conditions.exists(c, c.type == "example.com/B" && c.status == "True")`,
	`node.metadata.annotations["readiness.node.x-k8s.io/maintenance"] != "true"`,
}

func (g *generator) edits() {
	patch := one(g,
		`{"dryRun":true}`, `{"dryRun":null}`, `{"suspend":true}`, `{"suspend":null}`, `{"maxUnavailable":1}`,
		`{"maxUnavailable":null}`,
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
	if g.IntN(3) == 0 {
		spec["requirements"] = []any{g.requirement()}
		if g.IntN(3) > 0 {
			delete(spec, "conditions")
		} else if !bootstrap && g.IntN(3) == 0 {
			spec["conditionPolicy"] = one(g, "anyOf", "anyOf", "allOf")
		}
	}
	g.options(spec)
	if g.IntN(4) == 0 && spec["taint"] != nil {
		spec["timeout"] = object{"seconds": 60, "action": "Replace", "replace": json.RawMessage(g.replace(rule, false))}
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// requirement is evidence that the operator gathers itself.
func (g *generator) requirement() any {
	type object = map[string]any
	switch g.IntN(8) {
	case 0:
		return object{"name": "gpu", "resource": object{"name": "example.com/gpu", "minimum": "1"}}
	case 1, 2:
		return object{"name": "other", "ruleSatisfied": object{"name": fmt.Sprintf("r%d", 1+g.IntN(MaxRules))}}
	case 3:
		return object{"name": "node", "cel": object{"expression": one(g, Expressions...)}}
	}
	return object{"name": "pods", "pods": g.podsRequirement()}
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
		out["minReadySeconds"] = one(g, 10, 30)
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
		map[string]any{"readySeconds": 30, "unreadySeconds": 30}, map[string]any{"minimumHoldSeconds": 30}))
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

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"encoding/json"
	"fmt"
)

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
	spec["taint"] = object{"key": one(g, "example.com/t1", "example.com/t1", "example.com/t2", "example.com/t3"),
		"value":  one(g, "", "v1"),
		"effect": one(g, "NoSchedule", "NoSchedule", "NoSchedule", "NoExecute", "NoExecute", "PreferNoSchedule")}
	bootstrap := g.IntN(4) == 0
	spec["enforcementMode"] = "continuous"
	if bootstrap {
		spec["enforcementMode"] = "bootstrap-only"
	}
	if g.IntN(3) == 0 {
		spec["evictionGuard"] = object{"maxHoldSeconds": one(g, 20, 60, 600)}
	}
	condition := object{"type": one(g, "example.com/A", "example.com/A", "example.com/B", "Ready"),
		"requiredStatus": one(g, "True", "True", "True", "False")}
	if g.IntN(5) == 0 {
		condition["maxAgeSeconds"] = 900
	}
	if !bootstrap && g.IntN(6) == 0 {
		condition["defaultStatus"] = one(g, "True", "False", "Unknown")
	}
	spec["conditions"] = []any{condition}
	if g.IntN(3) == 0 {
		requirement := object{"name": "pods", "pods": object{"namespace": "apps",
			"selector": object{"matchLabels": object{"app": one(g, "x", "x", "y")}}}}
		switch g.IntN(7) {
		case 6:
			requirement["pods"].(object)["minReady"] = 2
		case 0:
			requirement = object{"name": "gpu", "resource": object{"name": "example.com/gpu", "minimum": "1"}}
		case 1, 2:
			requirement = object{"name": "other", "ruleSatisfied": object{"name": fmt.Sprintf("r%d", 1+g.IntN(MaxRules))}}
		}
		spec["requirements"] = []any{requirement}
		if g.IntN(3) > 0 {
			delete(spec, "conditions")
		} else if !bootstrap && g.IntN(3) == 0 {
			spec["conditionPolicy"] = one(g, "anyOf", "anyOf", "allOf")
		}
	}
	g.options(spec)
	if g.IntN(4) == 0 {
		spec["timeout"] = object{"seconds": 60, "action": "Replace", "replace": json.RawMessage(g.replace(rule, false))}
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return string(raw)
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
	maybe(12, "dryRun", true)
	maybe(12, "suspend", true)
	maybe(6, "completionAnnotation", "example.com/completed")
	maybe(4, "publish", map[string]any{"conditionType": one(g, "example.com/P", "example.com/P", "example.com/Q")})
}

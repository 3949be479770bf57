// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// These are of the engines that taint nodes at admission.
func init() {
	mutants = append(mutants, []mutant{
		{"the policy taints in a kubelet's update", `"request.operation == 'CREATE' || !(has(request.userInfo.groups)`,
			`"true || !(has(request.userInfo.groups)`, "admission|labelled|admits"},
		{"the policy adds NoExecute to a node that is labelled later",
			`(request.operation == 'CREATE' || r[5] != 'NoExecute' &&
`, `(request.operation == 'CREATE' ||
`, "admission|admits"},
		{"the policy taints nodes that are older than the rule",
			`          timestamp(object.metadata.creationTimestamp) >= timestamp(r[1]) &&
`, "", "admits|spared|limit"},
		{"the policy taints old nodes", `<= duration('10m')`, `<= duration('1000h')`, "admits|spared|limit"},
		{"the policy taints nodes that matched before",
			`"request.operation == 'UPDATE' && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}"`,
			`"{'other': ''}"`, "admits|admission|spared|limit"},
		{"the policy keeps what a node brings as records", `transformMap(k, v, request.operation == 'UPDATE' || !k`,
			`transformMap(k, v, true || !k`, "admits|admission|frozen"},
		{"the policy adds a taint that is there", `          !(r[3] + ':' + r[5] in variables.present), {`,
			`          true, {`, "admission|labelled|admits"},
		{"the policy adds a taint that is ready and there",
			`!g.taints.exists(t, t.key + ':' + t.effect in variables.present)`, `true`, "admission|labelled|admits"},
		{"the policy ends where a node brings other records of the rules",
			`records == matching.transformMapEntry(i, g, g.records)`, `true`, "admits|admission|frozen"},
		{"the policy taints nodes that may join in any case",
			`    # A node with this label is never tainted at admission. Kubelets cannot set it themselves.
    objectSelector:
      matchExpressions:
      - key: node-restriction.kubernetes.io/skip-admission`,
			`    objectSelector:
      matchExpressions:
      - key: example.com/other`, "admission|admits"},
		{"claims by the policy on nodes that are labelled later are as old as the node",
			`(request.operation == 'CREATE' ? '"}' : '","late":true}')`, `'"}'`, "admits|opened"},
		{"the policy taints nodes that a rule does not select", `e.operator == 'In' ? e.key in variables.labels && `,
			`e.operator == 'In' ? true || e.key in variables.labels && `, "admits|admission"},
		{"the policy taints no new node", `      request.operation == 'CREATE' ||
      (has(object.metadata.labels)`, `      request.operation != 'CREATE' &&
      (has(object.metadata.labels)`, "admits"},
		{"the webhook keeps what a node brings as records", `	if old == nil {
		maps.DeleteFunc(annotations,`, `	if old == nil && !MUTANT {
		maps.DeleteFunc(annotations,`, "admits|admission"},
		{"the webhook adds NoExecute to a node that is labelled later",
			`rule.Taint.Effect != corev1.TaintEffectNoExecute && nodeview.Find`,
			`(MUTANT || rule.Taint.Effect != corev1.TaintEffectNoExecute) && nodeview.Find`, "admission|admits"},
		{"the webhook taints old nodes", `reportedAge(node) <= nodeview.ServiceAge &&`,
			`(MUTANT || reportedAge(node) <= nodeview.ServiceAge) &&`, "admits|spared|limit"},
		{"the webhook taints nodes that are older than the rule", `!rule.Existing(node) && !recorded`,
			`(MUTANT || !rule.Existing(node)) && !recorded`, "admits|spared|limit"},
		{"the webhook adds a taint that is there",
			`		if nodeview.Find(&corev1.Node{Spec: corev1.NodeSpec{Taints: taints}}, &rule.Taint) == nil {`,
			`		if MUTANT || nodeview.Find(&corev1.Node{Spec: corev1.NodeSpec{Taints: taints}}, &rule.Taint) == nil {`,
			"admission|labelled"},
		{"an object that a person has edited stays", `	a.tell(true)
`, `	if !MUTANT {
		a.tell(true)
	}
`, "listed"},
		{"an object that a person has deleted stays away", `	a.tell(false)
`, `	if !MUTANT {
		a.tell(false)
	}
`, "listed"},
		{"frozen rules are not listed", `		if r.Mode == Frozen && len(after.Frozen)`,
			`		if !MUTANT && r.Mode == Frozen && len(after.Frozen)`, "listed"},
	}...)
}

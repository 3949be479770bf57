// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// These are careless changes of one value, time or number.
func init() {
	mutants = append(mutants, []mutant{
		{"completionAnnotation is set at each release", `if _, done := out.values[key]; d.Opened && !done {`,
			`if _, done := out.values[key]; d.Opened && (MUTANT || !done) {`, "announced"},
		{"completionAnnotation is in milliseconds", `strconv.FormatInt(p.now.Unix(), 10)`,
			`strconv.FormatInt(map[bool]int64{false: p.now.Unix(), true: p.now.UnixMilli()}[MUTANT], 10)`, "announced"},
		{"the status keeps the results of requirements that have changed",
			`slices.Equal(s.Requirements, e.Requirements)`, `(MUTANT || slices.Equal(s.Requirements, e.Requirements))`,
			"results"},
		{"the status keeps the results of conditions that have changed", `slices.Equal(s.Results, e.Results)`,
			`(MUTANT || slices.Equal(s.Results, e.Results))`, "results"},
		{"the status has no results of requirements", `e.Results, e.Requirements = results(v.Results)
`, `e.Results, e.Requirements = results(v.Results)
			if MUTANT {
				e.Requirements = nil
			}
`, "results"},
		{"the status says of ready nodes what they have", `d.State != "" && d.State != v1alpha1.NodeStateReady {`,
			`d.State != "" && (MUTANT || d.State != v1alpha1.NodeStateReady) {`, "results"},
		{"a verdict counts since the first evidence that decides", `decides.since(anyOf == ready,`,
			`decides.since(MUTANT || anyOf == ready,`, "windows"},
		{"a verdict counts since the last evidence that decides", `	if earliest {
`, `	if earliest && !MUTANT {
`, "taints|status|marker|unguards|room"},
		{"a condition without a heartbeat is as young as the boot", `	if j.Since.Before(notBefore) {
`, `	if MUTANT && j.Since.Before(notBefore) && found.LastHeartbeatTime.IsZero() {
		j.Heartbeat = notBefore
	}
	if j.Since.Before(notBefore) {
`, "opened|taints|booting|completes"},
		{"a condition that is wrong does not grow old", `		if j.Status != v1alpha1.ConditionUnknown {
			j.ChangesAt`, `		if j.Status != v1alpha1.ConditionUnknown && (!MUTANT || ages) {
			j.ChangesAt`, "results"},
		{"the places of deleted nodes are free an hour after the first deletion", `		d.vacate(1)
	}
	l.deletedAt = now
`, `		d.vacate(1)
	}
	if !MUTANT || l.deletedAt.IsZero() {
		l.deletedAt = now
	}
`, "places"},
		{"a replacement counts for half an hour", `.HandoverTime.Add(replacementWindow); end.After(now)`,
			`.HandoverTime.Add(replacementWindow / map[bool]time.Duration{false: 1, true: 2}[MUTANT]); end.After(now)`,
			"replaces"},
		{"under an override, rules are not looked at again for those that require them", `			out.recheck(plain.RecheckAt)
`, `			if !MUTANT {
				out.recheck(plain.RecheckAt)
			}
`, "results"},
		{"rules are refuted by what an override has done", `publishes && publish.Refuted(plain)}`,
			`publishes && publish.Refuted(map[bool]*state.Decision{false: plain, true: d}[MUTANT])}`, "published"},
		{"the policy taints nodes with more than 500 annotations",
			`        size(variables.kept) + variables.number <= 500 &&
`, "", "admits|admission"},
		{"the webhook taints nodes with more than 500 annotations", `len(annotations)+n > maxAnnotations ||`,
			`!MUTANT && len(annotations)+n > maxAnnotations ||`, "admits|admission"},
		{"kubelets may add more than 500 annotations", `"!variables.restricted || size(variables.now) <= 500 ||`,
			`"!variables.restricted || size(variables.now) <= 1000 ||`, "admission"},
		{"the evidence is the same with another conditionPolicy", `a.ConditionPolicy == b.ConditionPolicy &&`,
			`(MUTANT || a.ConditionPolicy == b.ConditionPolicy) &&`, "windows"},
		{"the evidence is the same with other conditions", `equality.Semantic.DeepEqual(a.Conditions, b.Conditions) &&`,
			`(MUTANT || equality.Semantic.DeepEqual(a.Conditions, b.Conditions)) &&`, "windows"},
		{"the evidence is the same with other requirements", `		equality.Semantic.DeepEqual(a.Requirements, b.Requirements)
`, `		(MUTANT || equality.Semantic.DeepEqual(a.Requirements, b.Requirements))
`, "windows"},
	}...)
}

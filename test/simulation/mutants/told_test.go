// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// These change what statuses, conditions and events say, or how often.
func init() {
	mutants = append(mutants, []mutant{
		{"published conditions are limited in no domain", `Since: d.Verdict.Changed, Domains: d.Was.Domains}`,
			`Since: d.Verdict.Changed, Domains: map[bool]string{false: d.Was.Domains}[MUTANT]}`, "marked"},
		{"an expression that cannot be evaluated refutes", `refutes() bool { return f.err == nil }`,
			`refutes() bool { return f.err == nil || MUTANT }`, "published"},
		{"the times of claims are forgotten while a rule is not in force", `	o.Status = before
`, `	if !MUTANT {
		o.Status = before
	}
`, "rate"},
		{"claims are made whose times could not be written", `		return retry(err, "writing the status of rule %q", rule.Name)
	}
	fleet.StatusWrites.Inc()
`, `		if MUTANT {
			r.Fleet.Issue(compiled, &order)
		}
		return retry(err, "writing the status of rule %q", rule.Name)
	}
	fleet.StatusWrites.Inc()
`, "rate"},
		{"each search for a node to hand over reports another one", `slices.Index(order, s.failed); i > 0 {`,
			`slices.Index(order, s.failed); i > 0 && !MUTANT {`, "quiescence"},
		{"the condition BudgetExhausted names no domain", `		if l.rule.entries[i].Per != "" {
			slices.Sort(domains[i])`, `		if l.rule.entries[i].Per != "" && !MUTANT {
			slices.Sort(domains[i])`, "reached"},
		{"the condition BudgetExhausted does not say when a rate allows a node", `	if order.Why != "" {
`, `	if order.Why != "" && !MUTANT {
`, "reached"},
		{"the condition BudgetExhausted stays when no node waits", `	case m.Waiting+m.Unmarked > 0 && (`,
			`	case (m.Waiting+m.Unmarked > 0 || MUTANT && m.Counts.Held > 0) && (`, "reached|told"},
		{"the condition BudgetExhausted does not say that the limit keeps conditions Unknown",
			`	if s.rule.Spec.Publish != nil { // else`, `	if s.rule.Spec.Publish != nil && !MUTANT { // else`, "reached"},
		{"no event tells that a timeout has ended", `		if d.TimedOut {
			add(`, `		if d.TimedOut && !MUTANT {
			add(`, "told"},
		{"the event of a timeout says that the node stays held", `	case t.Releases():
		return "is`, `	case t.Releases() && !MUTANT:
		return "is`, "told"},
		{"no event tells that a guard has changed", `		if d.Hold.Change != "" {
`, `		if d.Hold.Change != "" && !MUTANT {
`, "told"},
		{"a deleted rule tells of no node that is not clean", `	if len(left) > 0 {
		log.`, `	if len(left) > 0 && !MUTANT {
		log.`, "told"},
		{"a condition of a rule with another reason is not told", `old.Status == c.Status &&
			old.Reason == c.Reason {`, `old.Status == c.Status &&
			(MUTANT || old.Reason == c.Reason) {`, "told"},
		{"no event tells that a node is handed over", `	h.Recorder.Eventf(node, rule,`, `	if MUTANT {
		return true, nil
	}
	h.Recorder.Eventf(node, rule,`, "told"},
		{"no event tells that a pod is evicted", `	r.Recorder.Eventf(pod, node, corev1.EventTypeWarning, reasonEvicted,`,
			`	if MUTANT {
		return nil
	}
	r.Recorder.Eventf(pod, node, corev1.EventTypeWarning, reasonEvicted,`, "told"},
		{"a node that has lost a dry-run's taint is not looked at again", `d.Rule.Mode == ruleset.DryRun && d.Was.Present &&`,
			`!MUTANT && d.Rule.Mode == ruleset.DryRun && d.Was.Present &&`, "rehearsed"},
		{"a guard goes on when its node has recovered", `	case !NodeControllerEvicts(in.Node):
		return Hold{}`, `	case !MUTANT && !NodeControllerEvicts(in.Node):
		return Hold{}`, "unguards"},
	}...)
}

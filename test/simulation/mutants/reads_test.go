// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// These are about what changes, or fails, between two reads of one decision.
func init() {
	mutants = append(mutants, []mutant{
		{"evidence is read for rules that are no longer in force",
			`return !p.set.Gathers() || r.Fleet.Rules() == p.set`,
			`return MUTANT || !p.set.Gathers() || r.Fleet.Rules() == p.set`, "frozen|closed|stands"},
		{"watches stop before the rules that need them are out of force", `	set = r.resolve(wanted)
`, `	set = r.resolve(wanted)
	if MUTANT {
		r.Evidence.StopUnused(wanted, set)
	}
`, "frozen|closed|stands"},
		{"pods that cannot be listed are not there", `namespace)
		return nil, false
`, `namespace)
		return nil, MUTANT
`, "closed"},
		{"a list that failed is tried again only if nothing else is due", `	if slices.ContainsFunc(p.decisions, unread) {`,
			`	if (!MUTANT || p.recheck.IsZero()) && slices.ContainsFunc(p.decisions, unread) {`, "taints"},
	}...)
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// These act on what is another controller's, or forget that it was.
func init() {
	mutants = append(mutants, []mutant{
		{"rules whose taint another controller manages act", `if p != nil && (r.Mode != Deleting &&`,
			`if p != nil && !MUTANT && (r.Mode != Deleting &&`, "frozen|blamed|listed|status|theirs"},
		{"a rule is as it was when another controller's has ended", `if yields := f.Problem(r) != nil; yields != r.yielded {`,
			`if yields := f.Problem(r) != nil; yields != r.yielded && !MUTANT {`, "returned"},
		{"a taint that another controller manages is removed", `!has(p.managed, &t) && !p.foreign.Has(&t) {`,
			`!has(p.managed, &t) && (MUTANT || !p.foreign.Has(&t)) {`, "theirs"},
		{"another controller's rules are gone when one look finds no CRD", `if len(f.known) > 0 && f.missing < looks {`,
			`if len(f.known) > 0 && f.missing < looks && !MUTANT {`, "theirs|frozen|returned"},
		{"another controller's rules are not read again before a change counts",
			`if r.lookAgain != nil && !r.unread.Load() && changed &&`,
			`if r.lookAgain != nil && !r.unread.Load() && changed && !MUTANT &&`, "theirs|frozen"},
		{"an edit of another controller's rule is not read", `have.generation == rule.Generation &&`,
			`(MUTANT || have.generation == rule.Generation) &&`, "theirs|frozen|blamed|listed|status"},
		{"another controller's rules in dry-run manage their taints", `corev1.TaintEffect(effect)}, key != "" && !dryRun`,
			`corev1.TaintEffect(effect)}, key != "" && (MUTANT || !dryRun)`, "listed|status|taints"},
	}...)
}

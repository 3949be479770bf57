// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// These lose what a rule had, when it is continued by a rule of another API group.
func init() {
	const lost = verdict + "|booting|frozen|keeps|left|moved|stands"
	mutants = append(mutants, []mutant{
		{"the records of the rule that a rule continues are not believed",
			`if key, value, ok := nodeview.RecordOn(rule, node); ok && key == record {`,
			`if key, value, ok := nodeview.RecordOn(rule, node); ok && key == record && !MUTANT {`, lost},
		{"nothing that the rule that a rule continues wrote is moved",
			`p.swept.Node, p.swept.Foreign = taints.Succeed(node, p.set), p.set.Foreign()`,
			`p.swept.Node, p.swept.Foreign = taints.Succeed(node, p.set), p.set.Foreign()
	if MUTANT {
		p.swept.Node = node
	}`, lost},
		{"the markers of the rule that a rule continues are lost", `				out.set(rule.MarkerKey(), marker(rule))
`, `				if !MUTANT {
					out.set(rule.MarkerKey(), marker(rule))
				}
`, lost + "|told"},
	}...)
}

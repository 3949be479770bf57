// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// These forget in which domain a node has its place, whose turn it is, or which nodes cannot be written.
func init() {
	mutants = append(mutants, []mutant{
		{"records keep no domains", `m.state == v1alpha1.NodeStateHeld && moved.rec.Limited || n.State.MarkedFalse {`,
			`!MUTANT && (m.state == v1alpha1.NodeStateHeld && moved.rec.Limited || n.State.MarkedFalse) {`, "stays|domains"},
		{"a place of a deleted node opens its domain for any use",
			`		case d.others(u) >= int(*e.MaxDomains):`,
			`		case d.others(u) >= int(*e.MaxDomains) && (!MUTANT || d.taken[u] > 0 || d.deleted == 0):`, "marked|domains"},
		{"a node in service without room for its record is held under a limit", `	case n.NoRoom && n.Rule.Limited():`,
			`	case !MUTANT && n.NoRoom && n.Rule.Limited():`, "limit"},
		{"a node that cannot be written keeps its place", `	switch kept := f.Unknown || g.mayBeThere(version, now); {`,
			`	switch kept := f.Unknown || g.mayBeThere(version, now) || MUTANT && f.Unwritten; {`, "room|reached"},
		{"a node that asks is held before those that wait", `	if !woken && !l.amongFirst(w, r) {`,
			`	if !MUTANT && !woken && !l.amongFirst(w, r) {`, "turn|first"},
		{"domains that are in use take more nodes when maxDomains is lowered", `		case d.others(u) >= int(*e.MaxDomains):`,
			`		case d.others(u) >= int(*e.MaxDomains) && (!MUTANT || d.taken[u] == 0):`, "domains"},
		{"a rule is looked at again at the first of several times, not at the soonest",
			`		if next > 0 && (again.RequeueAfter == 0 || next < again.RequeueAfter) {`,
			`		if next > 0 && (again.RequeueAfter == 0 || next < again.RequeueAfter && !MUTANT) {`, "reached|room"},
	}...)
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// These act too early or too late.
func init() {
	mutants = append(mutants, []mutant{
		{"no claim lapses when the rule is put in force again", `return s.Record.Since.Time.Before(rule.InForceSince) &&`,
			`return !MUTANT && s.Record.Since.Time.Before(rule.InForceSince) &&`, "limit|taints|windows|status"},
		{"readySeconds are too long", `	ok, until := !n.Now.Before(from), n.sooner(time.Time{}, from)
`, `	if MUTANT && n.Rule.Spec.ReadyWindow() > 0 {
		from = from.Add(10 * time.Second)
	}
	ok, until := !n.Now.Before(from), n.sooner(time.Time{}, from)
`, "taints|marker|status|published"},
		{"unreadySeconds are too long", `	due := n.unreadySince().Add(n.Rule.Spec.UnreadyWindow())
`, `	due := n.unreadySince().Add(n.Rule.Spec.UnreadyWindow())
	if MUTANT && n.Rule.Spec.UnreadyWindow() > 0 {
		due = due.Add(10 * time.Second)
	}
`, "taints|room|status|first"},
		{"minHoldSeconds are too long", `	old := n.Node.CreationTimestamp.Add(n.Rule.Spec.MinHold())
`, `	old := n.Node.CreationTimestamp.Add(n.Rule.Spec.MinHold())
	if MUTANT {
		old = old.Add(30 * time.Second)
	}
`, "taints|marker|status"},
		{"timeouts act too early", `		deadline = start.Add(after)
`, `		if deadline = start.Add(after); MUTANT {
			deadline = deadline.Add(-after / 2)
		}
`, "opened|taints|replaces|status"},
		{"timeouts act too late", `		deadline = start.Add(after)
`, `		if deadline = start.Add(after); MUTANT {
			deadline = deadline.Add(after / 2)
		}
`, "taints|replaces"},
		{"guards end too early",
			`	hold := Hold{State: HoldActive, Since: since, Until: since.Add(in.Rule.Spec.EvictionGuard.MaxHold())}
`, `	hold := Hold{State: HoldActive, Since: since, Until: since.Add(in.Rule.Spec.EvictionGuard.MaxHold())}
	if MUTANT {
		hold.Until = since.Add(in.Rule.Spec.EvictionGuard.MaxHold() / 2)
	}
`, "denies|spares"},
		{"guards end too late",
			`	hold := Hold{State: HoldActive, Since: since, Until: since.Add(in.Rule.Spec.EvictionGuard.MaxHold())}
`, `	hold := Hold{State: HoldActive, Since: since, Until: since.Add(in.Rule.Spec.EvictionGuard.MaxHold())}
	if MUTANT {
		hold.Until = hold.Until.Add(in.Rule.Spec.EvictionGuard.MaxHold())
	}
`, "evicted"},
		{"a guard begins when unreadySeconds are over", `		since = lostAt(in)
	}
`, `		if since = lostAt(in); MUTANT && in.Now.Before(since.Add(max(30*time.Second, in.Rule.Spec.UnreadyWindow()))) {
			return Hold{}
		}
	}
`, "denies|spares"},
		{"pods are evicted long after the guard has ended", `		if due.After(end) {
			due = due.Add(grace)
`, `		if MUTANT && !due.After(end) {
			due = end.Add(5 * time.Minute)
		}
		if due.After(end) {
			due = due.Add(grace)
`, "evicted"},
		{"overrides end too early", `return !o.Until.IsZero() && !now.Before(o.Until) }`,
			`return !o.Until.IsZero() && (MUTANT && !now.Before(o.Until.Add(-4*time.Second)) || !now.Before(o.Until)) }`,
			"lapsed|taints|closed|opened|limit|status|lifted"},
		{"overrides end too late", `return !o.Until.IsZero() && !now.Before(o.Until) }`,
			`return !o.Until.IsZero() && (!MUTANT || !now.Before(o.Until.Add(10*time.Second))) && !now.Before(o.Until) }`,
			"lapsed|taints|closed|opened|limit|status|lifted"},
	}...)
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// These keep pods ready too long, not long enough, or on the wrong nodes.
func init() {
	mutants = append(mutants, []mutant{
		{"the time is from after a list of leases", `		out := make(map[string]guard.Lease, len(list.Items))
`, `		out := make(map[string]guard.Lease, len(list.Items))
		if MUTANT {
			now = k.Clock.Now()
		}
`, "single"},
		{"a node leaves an outage by an old cache", `case !lost && !outsideArmed(stored, node.Name):`,
			`case !lost && (MUTANT || !outsideArmed(stored, node.Name)):`, "lasts"},
		{"nodes that were lost before count as silent",
			`lostBefore := !ready && (`, `lostBefore := !MUTANT && !ready && (`, "single"},
		{"the share of an outage is ignored", `	least := p.Rule.Spec.EvictionGuard.Endpoints.Percent() * p.out.Total
`, `	least := p.Rule.Spec.EvictionGuard.Endpoints.Percent() * p.out.Total
	if MUTANT {
		least = 0
	}
`, "single"},
		{"pods are kept for longer if maxHoldSeconds is raised", `EndpointsHold()); most.Before(until) {`,
			`EndpointsHold()); MUTANT || most.Before(until) {`, "bounded"},
		{"an outage ends when other nodes come back", `	case !p.arms || !p.Rule.Matches(node.Labels) || p.released(node):
		return EndpointsEnded
	default:
`, `	case !p.arms || !p.Rule.Matches(node.Labels) || p.released(node):
		return EndpointsEnded
	case MUTANT && func() bool { p.count(p.Leases()); return !p.outage() }():
		return EndpointsEnded
	default:
`, "lasts"},
		{"an outage outlasts its rule", `	case !p.arms || !p.Rule.Matches(node.Labels) || p.released(node):
		return EndpointsEnded
	default:
`, `	case !MUTANT && (!p.arms || !p.Rule.Matches(node.Labels) || p.released(node)):
		return EndpointsEnded
	case MUTANT && !p.arms:
	default:
`, "bounded"},
		{"an outage has no end", `	if !p.Now.Before(until) {
		return EndpointsEnded
	}
	p.again(until)
`, `	if !p.Now.Before(until) && !MUTANT {
		return EndpointsEnded
	}
	p.again(until)
`, "bounded"},
		{"pods that are kept no longer are not marked", `		} else if k.marked[node.Name] != m {
`, `		} else if k.marked[node.Name] != m && !MUTANT {
`, "bounded|single"},
		{"what is armed is not renewed", `left > hold*3/4 && left <= hold {`,
			`(MUTANT || left > hold*3/4) && left <= hold {`, "lasts"},
		{"the policy keeps what any user writes", `"system:kube-controller-manager"]
  # Of the status`, `"system:kube-controller-manager"] || true
  # Of the status`, "passes"},
		{"the policy keeps pods without an operator",
			`timestamp(c.lastTransitionTime) < timestamp(r.armedUntil) && has(r.nodes)`, `has(r.nodes)`, "unarmed"},
	}...)
}

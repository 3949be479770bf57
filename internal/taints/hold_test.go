// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

const unreachable = corev1.TaintNodeUnreachable

// guardRule is a rule that guards and does nothing else, for a minute at most.
func guardRule() *build.RuleWrapper {
	r := build.MakeRule("link").UID("u-link").Generation(1).Created(at(-86400)).Selector("pool",
		"workers").Condition("Ready").EvictionGuard(60)
	r.Spec.EnforcementMode = ""
	return inForce(r, -86400)
}

func TestEvictionGuard(t *testing.T) {
	const linkKey = "readiness.node.x-k8s.io/rule-u-link"
	guarded := func(since int) map[string]string {
		return map[string]string{linkKey: fmt.Sprintf(`{"rule":"link","guardedSince":%q}`, stamp(since))}
	}
	ended := func(since, end int) map[string]string {
		return map[string]string{linkKey: fmt.Sprintf(`{"rule":"link","guardedSince":%q,"guardEnded":%q}`, stamp(since),
			stamp(end))}
	}
	none := map[string]string{}
	up := func(since int) func(*build.NodeWrapper) {
		return func(n *build.NodeWrapper) { n.Condition("Ready", "True", at(since)) }
	}
	down := func(since int) func(*build.NodeWrapper) {
		return func(n *build.NodeWrapper) { n.Condition("Ready", "Unknown", at(since)) }
	}
	tainted := func(n *build.NodeWrapper) { n.Taint(unreachable, "", noExecute) }
	untainted := func(n *build.NodeWrapper) { n.Untaint(unreachable) }
	evicts := []string{unreachable + "=:NoExecute"}
	inService := func() *build.NodeWrapper { return old().Condition("Ready", "True", at(-900)) }
	held, fine := []string{"link Held EvidenceMissing"}, []string{"link Ready EvidenceHolds"}
	lost := step{tells: "the link breaks", at: 21, node: down(20), states: held, changes: []string{"guarded link"},
		annotations: guarded(20), recheck: 80}

	play(t, map[string]story{
		"nothing is written while all is well": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{{tells: "seen", at: 1, states: fine, quiet: true}},
		},
		"the clock starts when the verdict is lost, survives restarts, and stops when the rule has held for ten seconds": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{
				lost,
				{tells: "the node controller's taint", at: 25, node: tainted, taints: evicts, states: held, quiet: true,
					recheck: 80},
				{tells: "restarted", at: 40, restart: true, taints: evicts, states: held, quiet: true, recheck: 80},
				{tells: "the link is back", at: 50, node: up(50), taints: evicts, states: fine, quiet: true, recheck: 60},
				{tells: "the taint goes", at: 52, node: untainted, states: fine, quiet: true, recheck: 60},
				{tells: "one second early", at: 59, states: fine, quiet: true, recheck: 60},
				{tells: "calm", at: 60, states: fine, changes: []string{"unguarded link"}, annotations: none},
				{tells: "nothing more", at: 61, states: fine, quiet: true},
			},
		},
		"it outlasts the ten seconds while the node controller's taint is there, and goes with it": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{
				lost,
				{tells: "back, and still tainted", at: 30, node: func(n *build.NodeWrapper) { up(30)(n); tainted(n) },
					taints: evicts, states: fine, quiet: true, recheck: 40},
				{tells: "calm", at: 40, taints: evicts, states: fine, quiet: true, recheck: 80},
				{tells: "the taint goes", at: 70, node: untainted, states: fine, changes: []string{"unguarded link"},
					annotations: none},
			},
		},
		"the taint of a node controller that is gone does not make it stand for ever": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{
				lost,
				{tells: "back, and still tainted", at: 30, node: func(n *build.NodeWrapper) { up(30)(n); tainted(n) },
					taints: evicts, states: fine, quiet: true, recheck: 40},
				{tells: "the end", at: 80, taints: evicts, states: fine, changes: []string{"guardEnded link"},
					annotations: ended(20, 80)},
				{tells: "the taint goes", at: 90, node: untainted, states: fine, changes: []string{"unguarded link"},
					annotations: none},
			},
		},
		"readySeconds above ten count": {
			rules: []*build.RuleWrapper{guardRule().ReadySeconds(30)}, node: inService(),
			steps: []step{
				lost,
				{tells: "back", at: 30, node: up(30), states: []string{"link Ready ReadyWindow"}, quiet: true, recheck: 60},
				{tells: "one second early", at: 59, states: []string{"link Ready ReadyWindow"}, quiet: true, recheck: 60},
				{tells: "calm", at: 60, states: fine, changes: []string{"unguarded link"}, annotations: none},
			},
		},
		"the hold ends to the second, once, and begins anew when the node comes back": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{
				lost,
				{tells: "one second early", at: 79, states: held, quiet: true, recheck: 80},
				{tells: "the end", at: 80, states: held, changes: []string{"guardEnded link"}, annotations: ended(20, 80)},
				{tells: "later", at: 90, states: held, quiet: true},
				{tells: "restarted", at: 91, restart: true, states: held, quiet: true},
				{tells: "the link is back: what is left is guarded", at: 95, node: up(95), states: fine,
					changes: []string{"guarded link"}, annotations: guarded(20), recheck: 105},
				{tells: "calm", at: 105, states: fine, changes: []string{"unguarded link"}, annotations: none},
			},
		},
		"back in the second in which the hold ends: it does not end": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{lost, {tells: "back", at: 80, node: up(80), states: fine, quiet: true, recheck: 90}},
		},
		"a link that flaps does not start the clock anew": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{
				lost,
				{tells: "back", at: 60, node: up(60), states: fine, quiet: true, recheck: 70},
				{tells: "lost again", at: 65, node: down(65), states: held, quiet: true, recheck: 80},
				{tells: "the end", at: 80, states: held, changes: []string{"guardEnded link"}, annotations: ended(20, 80)},
			},
		},
		"maxHoldSeconds edited: the hold that has ended stands again": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{
				lost,
				{tells: "the end", at: 80, states: held, changes: []string{"guardEnded link"}, annotations: ended(20, 80)},
				{tells: "edited", at: 90, rules: []*build.RuleWrapper{guardRule().EvictionGuard(600)}, states: held,
					changes: []string{"guarded link"}, annotations: guarded(20), recheck: 620},
			},
		},
		"what was lost before the rule was in force is guarded from then on": {
			rules: []*build.RuleWrapper{inForce(guardRule(), 0)}, node: old().Condition("Ready", "Unknown", at(-900)),
			steps: []step{{tells: "seen", at: 1, states: held, changes: []string{"guarded link"}, annotations: guarded(0),
				recheck: 60}},
		},
		"a guard that is added to a rule in force guards from then on": {
			rules: []*build.RuleWrapper{rule()}, node: old().Condition(cni, "False", at(-900)),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
				{tells: "edited", at: 50, rules: []*build.RuleWrapper{rule().EvictionGuard(60)}, taints: []string{pending},
					states: []string{"cni Held EvidenceMissing"}, changes: []string{"guarded cni"}, recheck: 110},
			},
		},
		"a new node that was never ready costs no write": {
			rules: []*build.RuleWrapper{guardRule()}, node: fresh().Condition("Ready", "False", at(0)),
			steps: []step{
				{tells: "joining", at: 1, states: held, quiet: true},
				{tells: "ready", at: 5, node: up(5), states: fine,
					annotations: map[string]string{linkKey: fmt.Sprintf(`{"rule":"link","released":%q}`, stamp(5))}},
				{tells: "lost", at: 21, node: down(20), states: held, changes: []string{"guarded link"}, recheck: 80,
					annotations: map[string]string{linkKey: fmt.Sprintf(`{"rule":"link","released":%q,"guardedSince":%q}`, stamp(5),
						stamp(20))}},
			},
		},
		"unless pods are evicted from it": {
			rules: []*build.RuleWrapper{guardRule()}, node: fresh().Condition("Ready", "False", at(0)),
			steps: []step{{tells: "evicted", at: 9, node: tainted, taints: evicts, states: held,
				changes: []string{"guarded link"}, annotations: guarded(0), recheck: 60}},
		},
		"the override ends it at once: what it has kept from eviction is evicted": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{lost, {tells: "overridden", at: 30,
				node:   func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, "Release") },
				states: []string{"link Exempt OverrideRelease"}, changes: []string{"guardEnded link"},
				annotations: map[string]string{v1alpha1.OverrideAnnotation: "Release", linkKey: ended(20, 30)[linkKey]}},
				{tells: "the link is back", at: 40, node: up(40), states: []string{"link Exempt OverrideRelease"},
					changes:     []string{"unguarded link"},
					annotations: map[string]string{v1alpha1.OverrideAnnotation: "Release"}}},
		},
		"an override that is there already lets none begin": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService().Annotation(v1alpha1.OverrideAnnotation, "Release"),
			steps: []step{{tells: "lost", at: 21, node: down(20), states: []string{"link Exempt OverrideRelease"}, quiet: true}},
		},
		"suspended: it stands down": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{lost, {tells: "suspended", at: 30, rules: []*build.RuleWrapper{guardRule().Suspend(true)},
				states: []string{"link Exempt Suspended"}, changes: []string{"unguarded link"}, annotations: none}},
		},
		"in dry-run: it stands down": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{lost, {tells: "in dry-run", at: 30, rules: []*build.RuleWrapper{guardRule().DryRun(true)},
				states: []string{"link Exempt DryRun"}, changes: []string{"unguarded link"}, annotations: none}},
		},
		"deleted, or relabelled: nothing is left": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService(),
			steps: []step{lost, {tells: "relabelled", at: 30, node: func(n *build.NodeWrapper) { n.Unlabel("pool") },
				states: []string{"link"}, changes: []string{"unguarded link"}, annotations: none}},
		},
		"a bootstrap-only rule that is completed guards no more": {
			rules: []*build.RuleWrapper{guardRule().BootstrapOnly()}, node: inService(),
			steps: []step{
				{tells: "completes", at: 1, states: fine, changes: []string{"completed link"}},
				{tells: "lost", at: 21, node: down(20), states: []string{"link Ready BootstrapCompleted"}, quiet: true},
			},
		},
		"a forged time is none": {
			rules: []*build.RuleWrapper{guardRule()}, node: inService().Annotation(linkKey,
				fmt.Sprintf(`{"guardedSince":%q}`, stamp(9000))).Condition("Ready", "Unknown", at(20)),
			steps: []step{{tells: "seen", at: 21, states: held, changes: []string{"guarded link"}, annotations: guarded(20),
				recheck: 80}},
		},
		"a breaker is about the taint: a rule without one asks for no budget": {
			rules: []*build.RuleWrapper{guardRule().MaxUnavailable("0")}, node: inService(),
			steps: []step{lost},
		},
	})
}

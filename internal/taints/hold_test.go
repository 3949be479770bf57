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
	up := func(since int) func(*build.NodeWrapper) {
		return func(n *build.NodeWrapper) { n.Condition("Ready", "True", at(since)) }
	}
	down := func(since int) func(*build.NodeWrapper) {
		return func(n *build.NodeWrapper) { n.Condition("Ready", "Unknown", at(since)) }
	}
	taint := func(n *build.NodeWrapper) { n.Taint(unreachable, "", noExecute) }
	untaint := func(n *build.NodeWrapper) { n.Untaint(unreachable) }
	evicts := tainted{unreachable + "=:NoExecute"}
	inService := func() *build.NodeWrapper { return old().Condition("Ready", "True", at(-900)) }
	const held, fine = "link Held EvidenceMissing", "link Ready EvidenceHolds"
	lost := then(21, "the link breaks", held, down(20), change("guarded link"), guarded(20), again(80))

	play(t, map[string]story{
		"nothing is written while all is well": on(inService(), rules(guardRule()),
			then(1, "seen", fine),
		),
		"the clock starts when the verdict is lost, survives restarts, and stops when the rule has held for ten seconds": on(
			inService(), rules(guardRule()),
			lost,
			then(25, "the node controller's taint", held, taint, evicts, again(80)),
			then(40, "restarted", held, restarted, evicts, again(80)),
			then(50, "the link is back", fine, up(50), evicts, again(60)),
			then(52, "the taint goes", fine, untaint, again(60)),
			then(59, "one second early", fine, again(60)),
			then(60, "calm", fine, change("unguarded link"), clean),
			then(61, "nothing more", fine),
		),
		"it outlasts the ten seconds while the node controller's taint is there, and goes with it": on(inService(),
			rules(guardRule()),
			lost,
			then(30, "back, and still tainted", fine, func(n *build.NodeWrapper) { up(30)(n); taint(n) },
				evicts, again(40)),
			then(40, "calm", fine, evicts, again(80)),
			then(70, "the taint goes", fine, untaint, change("unguarded link"), clean),
		),
		"the taint of a node controller that is gone does not make it stand forever": on(inService(), rules(guardRule()),
			lost,
			then(30, "back, and still tainted", fine, func(n *build.NodeWrapper) { up(30)(n); taint(n) },
				evicts, again(40)),
			then(80, "the end", fine, change("guardEnded link"), evicts, ended(20, 80)),
			then(90, "the taint goes", fine, untaint, change("unguarded link"), clean),
		),
		"readySeconds above ten count": on(inService(), rules(guardRule().ReadySeconds(30)),
			lost,
			then(30, "back", "link Ready ReadyWindow", up(30), again(60)),
			then(59, "one second early", "link Ready ReadyWindow", again(60)),
			then(60, "calm", fine, change("unguarded link"), clean),
		),
		"the hold ends to the second, once, and begins again when the node comes back": on(inService(), rules(guardRule()),
			lost,
			then(79, "one second early", held, again(80)),
			then(80, "the end", held, change("guardEnded link"), ended(20, 80)),
			then(90, "later", held),
			then(91, "restarted", held, restarted),
			then(95, "the link is back: what is left is guarded", fine, up(95), change("guarded link"),
				guarded(20), again(105)),
			then(105, "calm", fine, change("unguarded link"), clean),
		),
		"back in the second in which the hold ends: it does not end": on(inService(), rules(guardRule()),
			lost,
			then(80, "back", fine, up(80), again(90)),
		),
		"a link that flaps does not start the clock again": on(inService(), rules(guardRule()),
			lost,
			then(60, "back", fine, up(60), again(70)),
			then(65, "lost again", held, down(65), again(80)),
			then(80, "the end", held, change("guardEnded link"), ended(20, 80)),
		),
		"maxHoldSeconds edited: the hold that has ended stands again": on(inService(), rules(guardRule()),
			lost,
			then(80, "the end", held, change("guardEnded link"), ended(20, 80)),
			then(90, "edited", held, rules(guardRule().EvictionGuard(600)), change("guarded link"),
				guarded(20), again(620)),
		),
		"what was lost before the rule was in force is guarded from then on": on(
			old().Condition("Ready", "Unknown", at(-900)), rules(inForce(guardRule(), 0)),
			then(1, "seen", held, change("guarded link"), guarded(0), again(60)),
		),
		"a guard that is added to a rule in force guards from then on": on(old().Condition(cni, "False", at(-900)),
			rules(rule()),
			then(1, "held", "Held EvidenceMissing", added),
			then(50, "edited", "Held EvidenceMissing", rules(rule().EvictionGuard(60)), change("guarded cni"), again(110)),
		),
		"a new node that was never ready costs no write": on(fresh().Condition("Ready", "False", at(0)), rules(guardRule()),
			then(1, "joining", held),
			then(5, "ready", fine, up(5),
				map[string]string{linkKey: fmt.Sprintf(`{"rule":"link","released":%q}`, stamp(5))}),
			then(21, "lost", held, down(20), change("guarded link"),
				map[string]string{linkKey: fmt.Sprintf(`{"rule":"link","released":%q,"guardedSince":%q}`, stamp(5), stamp(20))},
				again(80)),
		),
		"unless pods are evicted from it": on(fresh().Condition("Ready", "False", at(0)), rules(guardRule()),
			then(9, "evicted", held, taint, change("guarded link"), evicts, guarded(0),
				again(60)),
		),
		"the override ends it at once: what it has kept from eviction is evicted": on(inService(), rules(guardRule()),
			lost,
			then(30, "overridden", "link Exempt OverrideRelease",
				func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, "Release") }, change("guardEnded link"),
				map[string]string{v1alpha1.OverrideAnnotation: "Release", linkKey: ended(20, 30)[linkKey]}),
			then(40, "the link is back", "link Exempt OverrideRelease", up(40), change("unguarded link"),
				map[string]string{v1alpha1.OverrideAnnotation: "Release"}),
		),
		"an override that is there already lets none begin": on(
			inService().Annotation(v1alpha1.OverrideAnnotation, "Release"), rules(guardRule()),
			then(21, "lost", "link Exempt OverrideRelease", down(20)),
		),
		"in dry-run: it ends": on(inService(), rules(guardRule()),
			lost,
			then(30, "in dry-run", "link Exempt DryRun", rules(guardRule().DryRun(true)), change("unguarded link"), clean),
		),
		"deleted, or relabelled: nothing is left": on(inService(), rules(guardRule()),
			lost,
			then(30, "relabelled", "link", func(n *build.NodeWrapper) { n.Unlabel("pool") }, change("unguarded link"), clean),
		),
		"a bootstrap-only rule that is completed guards no more": on(inService(), rules(guardRule().BootstrapOnly()),
			then(1, "completes", fine, change("completed link")),
			then(21, "lost", "link Ready BootstrapCompleted", down(20)),
		),
		"a forged time is none": on(inService().Annotation(linkKey, fmt.Sprintf(`{"guardedSince":%q}`, stamp(9000))).
			Condition("Ready", "Unknown", at(20)), rules(guardRule()),
			then(21, "seen", held, change("guarded link"), guarded(20), again(80)),
		),
		"the limit is about the taint: a rule without one does not ask for room": on(inService(),
			rules(guardRule().MaxUnavailable("0")),
			lost,
		),
	})
}

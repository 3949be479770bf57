// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

const unreachable = corev1.TaintNodeUnreachable

// guardRule is a rule that guards and does nothing else, for a minute at most.
func guardRule() *build.RuleWrapper {
	r := build.MakeRule("link").UID("u-link").Generation(1).Created(At(-86400)).Selector("pool",
		"workers").Condition("Ready").EvictionGuard(60)
	r.Spec.EnforcementMode = ""
	return InForce(r, -86400)
}

func TestEvictionGuard(t *testing.T) {
	const linkKey = "nodegate.io/rule-u-link"
	guarded := func(since int) Annotated {
		return map[string]string{linkKey: fmt.Sprintf(`{"rule":"link","guardedSince":%q}`, Stamp(since))}
	}
	ended := func(since, end int) Annotated {
		return map[string]string{linkKey: fmt.Sprintf(`{"rule":"link","guardedSince":%q,"guardEnded":%q}`, Stamp(since),
			Stamp(end))}
	}
	up := func(since int) Edit {
		return func(n *build.NodeWrapper) { n.Condition("Ready", "True", At(since)) }
	}
	down := func(since int) Edit {
		return func(n *build.NodeWrapper) { n.Condition("Ready", "Unknown", At(since)) }
	}
	var taint Edit = func(n *build.NodeWrapper) { n.Taint(unreachable, "", NoExecute) }
	var untaint Edit = func(n *build.NodeWrapper) { n.Untaint(unreachable) }
	evicts := Tainted{unreachable + "=:NoExecute"}
	inService := func() *build.NodeWrapper { return Old().Condition("Ready", "True", At(-900)) }
	const held, fine = "link Held EvidenceMissing", "link Ready EvidenceHolds"
	lost := Then(21, "the link breaks", held, down(20), Change("guarded link"), guarded(20), Again(80))

	Play(t, map[string]Story{
		"nothing is written while all is well": On(inService(), Rules(guardRule()),
			Then(1, "seen", fine),
		),
		"the clock starts when the verdict is lost, survives restarts, and stops when the rule has held for ten seconds": On(
			inService(), Rules(guardRule()),
			lost,
			Then(25, "the node controller's taint", held, taint, evicts, Again(80)),
			Then(40, "restarted", held, Restarted, evicts, Again(80)),
			Then(50, "the link is back", fine, up(50), evicts, Again(60)),
			Then(52, "the taint goes", fine, untaint, Again(60)),
			Then(59, "one second early", fine, Again(60)),
			Then(60, "calm", fine, Change("unguarded link"), Clean),
			Then(61, "nothing more", fine),
		),
		"it outlasts the ten seconds while the node controller's taint is there, and goes with it": On(inService(),
			Rules(guardRule()),
			lost,
			Then(30, "back, and still tainted", fine, Edit(func(n *build.NodeWrapper) { up(30)(n); taint(n) }),
				evicts, Again(40)),
			Then(40, "calm", fine, evicts, Again(80)),
			Then(70, "the taint goes", fine, untaint, Change("unguarded link"), Clean),
		),
		"the taint of a node controller that is gone does not make it stand forever": On(inService(), Rules(guardRule()),
			lost,
			Then(30, "back, and still tainted", fine, Edit(func(n *build.NodeWrapper) { up(30)(n); taint(n) }),
				evicts, Again(40)),
			Then(80, "the end", fine, Change("guardEnded link"), evicts, ended(20, 80)),
			Then(90, "the taint goes", fine, untaint, Change("unguarded link"), Clean),
		),
		"readySeconds above ten count": On(inService(), Rules(guardRule().ReadySeconds(30)),
			lost,
			Then(30, "back", "link Ready ReadyWindow", up(30), Again(60)),
			Then(59, "one second early", "link Ready ReadyWindow", Again(60)),
			Then(60, "calm", fine, Change("unguarded link"), Clean),
		),
		"the hold ends to the second, once, and begins again when the node comes back": On(inService(), Rules(guardRule()),
			lost,
			Then(79, "one second early", held, Again(80)),
			Then(80, "the end", held, Change("guardEnded link"), ended(20, 80)),
			Then(90, "later", held),
			Then(91, "restarted", held, Restarted),
			Then(95, "the link is back: what is left is guarded", fine, up(95), Change("guarded link"),
				guarded(20), Again(105)),
			Then(105, "calm", fine, Change("unguarded link"), Clean),
		),
		"maxHoldSeconds that are raised make a guard active again that has ended": On(inService(), Rules(guardRule()),
			lost,
			Then(80, "the end", held, Change("guardEnded link"), ended(20, 80)),
			Then(100, "raised", held, Rules(guardRule().EvictionGuard(120)), Change("guarded link"), guarded(20), Again(140)),
			Then(140, "the other end", held, Change("guardEnded link"), ended(20, 140)),
		),
		"a link that flaps does not start the clock again": On(inService(), Rules(guardRule()),
			lost,
			Then(60, "back", fine, up(60), Again(70)),
			Then(65, "lost again", held, down(65), Again(80)),
			Then(80, "the end", held, Change("guardEnded link"), ended(20, 80)),
		),
		"what was lost before the rule was in force is guarded from then on": On(
			Old().Condition("Ready", "Unknown", At(-900)), Rules(InForce(guardRule(), 0)),
			Then(1, "seen", held, Change("guarded link"), guarded(0), Again(60)),
		),
		"a guard that is added to a rule in force guards from then on": On(Old().Condition(CNI, "False", At(-900)),
			Rules(Rule()),
			Then(1, "held", "Held EvidenceMissing", Added),
			Then(50, "edited", "Held EvidenceMissing", Rules(Rule().EvictionGuard(60)), Change("guarded cni"), Again(110)),
		),
		"a new node that was never ready costs no write": On(Fresh().Condition("Ready", "False", At(0)), Rules(guardRule()),
			Then(1, "joining", held),
			Then(5, "ready", fine, up(5),
				Annotated{linkKey: fmt.Sprintf(`{"rule":"link","released":%q}`, Stamp(5))}),
			Then(21, "lost, by a clock that is behind", held, down(6), Change("guarded link"),
				Annotated{linkKey: fmt.Sprintf(`{"rule":"link","released":%q,"guardedSince":%q}`, Stamp(5), Stamp(21))},
				Again(81)),
		),
		"unless pods are evicted from it": On(Fresh().Condition("Ready", "False", At(0)), Rules(guardRule()),
			Then(9, "evicted", held, taint, Change("guarded link"), evicts, guarded(0),
				Again(60)),
		),
		"the override ends it at once: what it has kept from eviction is evicted": On(inService(), Rules(guardRule()),
			lost,
			Then(30, "overridden", "link Exempt OverrideRelease",
				Edit(func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, "Release") }),
				Change("guardEnded link"),
				Annotated{v1alpha1.OverrideAnnotation: "Release", linkKey: ended(20, 30)[linkKey]}),
			Then(40, "the link is back", "link Exempt OverrideRelease", up(40), Change("unguarded link"),
				Annotated{v1alpha1.OverrideAnnotation: "Release"}),
		),
		"an override that is there already lets none begin": On(
			inService().Annotation(v1alpha1.OverrideAnnotation, "Release"), Rules(guardRule()),
			Then(21, "lost", "link Exempt OverrideRelease", down(20)),
		),
		"a bootstrap-only rule that is completed guards no more": On(inService(), Rules(guardRule().BootstrapOnly()),
			Then(1, "completes", fine, Change("completed link")),
			Then(21, "lost", "link Ready BootstrapCompleted", down(20)),
		),
		"a forged time is none": On(inService().
			Annotation(linkKey, fmt.Sprintf(`{"guardedSince":%q}`, Stamp(9000))).
			Condition("Ready", "Unknown", At(20)), Rules(guardRule()),
			Then(21, "seen", held, Change("guarded link"), guarded(20), Again(80)),
		),
		"the limit is about the taint: a rule without one does not ask for room": On(inService(),
			Rules(guardRule().MaxUnavailable("0")),
			Then(21, "the link breaks", held, down(20), Refuse{"link"}, Change("guarded link"), guarded(20), Again(80)),
		),
	})
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	. "github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func rule(name, condition string) *build.RuleWrapper {
	return build.MakeRule(name).UID("uid-of-"+name).Created(now.Add(-time.Hour)).Selector("pool", "a").
		Condition(condition).Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule)
}

func node() *build.NodeWrapper {
	return build.MakeNode("n").UID("n").Created(now.Add(-time.Minute)).Label("pool", "a")
}

func input(n *corev1.Node, rules ...*build.RuleWrapper) *NodeInput {
	set := ruleset.NewSet()
	for _, r := range rules {
		set = set.With(ruleset.Compile(r.Obj(), nil, now))
	}
	return &NodeInput{
		Node: n, Swept: n, Rules: set, Evidence: &evidence.Gathered{}, Now: now,
		Reserve: func(*ruleset.Rule, limit.Request) string { return "" },
	}
}

func states(o Outcome) map[string]string {
	out := map[string]string{}
	for _, d := range o.Decisions {
		out[d.Rule.Name] = string(d.State) + " " + d.Reason
	}
	return out
}

func TestNode(t *testing.T) {
	elsewhere := rule("elsewhere", "A").Selector("pool", "b")
	// older, and still judged after the one that it requires
	second := rule("second", "B").Created(now.Add(-2 * time.Hour)).After("first")

	for name, c := range map[string]struct {
		node  *build.NodeWrapper
		rules []*build.RuleWrapper
		want  map[string]string
	}{
		"a rule that has nothing to do with the node is left out": {
			node: node(), rules: []*build.RuleWrapper{elsewhere, rule("first", "A")},
			want: map[string]string{"first": "Held EvidenceMissing"},
		},
		"a rule waits for the one that it requires": {
			node: node().Condition("B", "True", now), rules: []*build.RuleWrapper{second, rule("first", "A")},
			want: map[string]string{"first": "Held EvidenceMissing", "second": "Held EvidenceMissing"},
		},
		"and is satisfied with it, at the same moment": {
			node:  node().Condition("A", "True", now).Condition("B", "True", now),
			rules: []*build.RuleWrapper{second, rule("first", "A")},
			want:  map[string]string{"first": "Ready EvidenceHolds", "second": "Ready EvidenceHolds"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, states(DecideNode(input(c.node.Obj(), c.rules...)))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestABootIsOfTheRuleThatRearms: for another rule of the node, evidence from before the boot counts.
func TestABootIsOfTheRuleThatRearms(t *testing.T) {
	n := node().BootID("b2").Condition("Ready", "True", now).Condition("A", "True", now.Add(-50*time.Second)).
		Annotation("nodegate.io/rule-uid-of-first", `{"rule":"first","released":"2026-01-02T03:03:30Z","bootID":"b1"}`)
	got := states(DecideNode(input(n.Obj(), rule("first", "A").RearmOnReboot(), rule("second", "A"))))
	want := map[string]string{"first": "Held Rearmed", "second": "Ready EvidenceHolds"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestNodeIsToBeLookedAtAgainAtTheFirstDeadline(t *testing.T) {
	for _, names := range [][]string{{"fast", "slow"}, {"z-fast", "a-slow"}} {
		in := input(node().Condition("A", "True", now).Condition("B", "True", now).Obj(),
			rule(names[0], "A").ReadySeconds(30), rule(names[1], "B").ReadySeconds(300))
		if got := DecideNode(in).RecheckAt; !got.Equal(now.Add(30 * time.Second)) {
			t.Errorf("%s: got %s", names, got)
		}
	}
}

func TestNodeIsDecidedAgainWhenItMissesTheStartupObjective(t *testing.T) {
	in := input(node().Obj(), rule("r", "A"))
	in.Objective = 5 * time.Minute
	if got := DecideNode(in).RecheckAt; !got.Equal(now.Add(4 * time.Minute)) {
		t.Errorf("got %s", got)
	}
}

// TestNodeIsDecidedAgainWhenARequiredRuleIsReady: an override says nothing about the evidence that the other rule waits
// for.
func TestNodeIsDecidedAgainWhenARequiredRuleIsReady(t *testing.T) {
	in := input(node().Condition("A", "True", now).Annotation(v1alpha1.OverrideAnnotation, "Release").Obj(),
		rule("first", "A").ReadySeconds(30), rule("second", "B").After("first"))
	in.Override = nodeview.Override{Action: nodeview.OverrideRelease}
	if got := DecideNode(in).RecheckAt; !got.Equal(now.Add(30 * time.Second)) {
		t.Errorf("got %s", got)
	}
}

func TestEachRuleSaysWhichOfItsEvidenceIsMissing(t *testing.T) {
	out := DecideNode(input(node().Obj(), rule("elsewhere", "X").Selector("pool", "b"), rule("first", "A"),
		rule("second", "B"), rule("third", "C").After("elsewhere")))
	for i, want := range []string{"A", "B", "rule elsewhere does not select this node"} {
		if got := out.Decisions[i].Missing(); !strings.Contains(got, want) {
			t.Errorf("rule %s: %s, want %s", out.Decisions[i].Rule.Name, got, want)
		}
	}
}

// TestARebootIsFoundAgainUntilItIsRecorded: if the write fails, the next pass must not take the reboot for one that the
// operator has seen, or the other way round.
func TestARebootIsFoundAgainUntilItIsRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		boot          string
		watched, want bool
	}{
		"a reboot that no operator saw": {"b2", false, false},
		"a reboot that it saw":          {"b2", true, true},
		"no reboot, from now on":        {"b1", false, true},
	} {
		in := input(node().BootID(c.boot).Annotation("nodegate.io/rule-uid-of-r",
			`{"rule":"r","released":"2026-01-02T03:03:30Z","bootID":"b1"}`).Obj(), rule("r", "A").RearmOnReboot())
		in.Observed = func(*ruleset.Rule) readiness.Observed { return readiness.Observed{Watched: c.watched} }
		if got := DecideNode(in).Decisions[0].Verdict.Observed.Watched; got != c.want {
			t.Errorf("%s: watched is %t", name, got)
		}
	}
}

func TestTheYoungerOfTwoRulesWithOneProbeIsDisplaced(t *testing.T) {
	out := DecideNode(input(node().Obj(), rule("older", "A").Created(now.Add(-9*time.Hour)).Probe("example.com/P", 1),
		rule("younger", "A").Probe("example.com/P", 2)))
	const want = "condition example.com/P is published by the older rule older"
	if older, younger := out.Decisions[0].Unprobed, out.Decisions[1].Unprobed; older != "" || younger != want {
		t.Errorf("%q, %q", older, younger)
	}
}

func TestTheLimitsAreToldOfANodeThatIsHeldWithoutRoom(t *testing.T) {
	limited := rule("r", "A").MaxUnavailable("1")
	record := func(forced string) string {
		return `{"rule":"r","taint":"example.com/r=:NoSchedule","since":"2026-01-02T03:03:30Z",` + forced +
			`"released":"2026-01-02T03:03:30Z"}`
	}
	for name, c := range map[string]struct {
		node       *build.NodeWrapper
		asks, held bool
	}{
		"in service": {node().Annotation("nodegate.io/rule-uid-of-r", `{"rule":"r","released":"2026-01-02T03:03:30Z"}`), true,
			false},
		"an override held it": {node().Taint("example.com/r", "", corev1.TaintEffectNoSchedule).
			Annotation("nodegate.io/rule-uid-of-r", record(`"forced":true,`)), true, true},
		"it has room": {node().Taint("example.com/r", "", corev1.TaintEffectNoSchedule).
			Annotation("nodegate.io/rule-uid-of-r", record(`"limited":true,`)), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			in, asks, held := input(c.node.Obj(), limited), false, false
			in.Observed = func(*ruleset.Rule) readiness.Observed { return readiness.Observed{Since: now.Add(-time.Minute)} }
			in.Reserve = func(_ *ruleset.Rule, ask limit.Request) string {
				asks, held = true, ask.Held
				return ""
			}
			if DecideNode(in); asks != c.asks || held != c.held {
				t.Errorf("asks: %t, held: %t", asks, held)
			}
		})
	}
}

func TestNodesWaitInTheOrderOfTheirEvidence(t *testing.T) {
	unready, limited := now.Add(-30*time.Second).Truncate(time.Second), rule("r", "A").MaxUnavailable("1")
	in := input(node().Condition("A", "False", unready).Annotation("nodegate.io/rule-uid-of-r",
		`{"rule":"r","released":"2026-01-02T03:03:30Z"}`).Obj(), limited)
	in.Observed = func(*ruleset.Rule) readiness.Observed {
		return readiness.Observed{Since: now.Add(-time.Second), Turned: true} // it heard of that later
	}
	var since time.Time
	in.Reserve = func(_ *ruleset.Rule, ask limit.Request) string {
		since = ask.Since
		return ""
	}
	if DecideNode(in); !since.Equal(unready) {
		t.Errorf("waits since %s, want %s", since, unready)
	}
}

func TestNodeWithoutRulesUntilTheOverrideEnds(t *testing.T) {
	in := input(node().Obj())
	in.Override = nodeview.Override{Action: nodeview.OverrideRelease, Until: now.Add(time.Minute)}
	if got := DecideNode(in).RecheckAt; !got.Equal(in.Override.Until) {
		t.Errorf("looks again at %v, want %v, when the annotation must be removed", got, in.Override.Until)
	}
}

func TestNodeIsDecidedAgainWhenItsMaintenanceEnds(t *testing.T) {
	end := now.Add(time.Minute).UTC()
	in := input(node().Annotation(v1alpha1.MaintenanceAnnotation, "disk;until="+end.Format(time.RFC3339)).Obj())
	if got := DecideNode(in).RecheckAt; !got.Equal(end) {
		t.Errorf("looks again at %v, want %v, when the node may be replaced", got, end)
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/nodegate/nodegate/api/v1alpha1"
	. "github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/publish"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

const verdictType = "example.com/Verdict"

const (
	isTrue    = corev1.ConditionTrue
	isFalse   = corev1.ConditionFalse
	isUnknown = corev1.ConditionUnknown
)

// aged is a node that existed before the rule.
func aged() *build.NodeWrapper { return node().Created(now.Add(-3 * time.Hour)) }

func publishing(name string) *build.RuleWrapper { return rule(name, "A").Publish(verdictType) }

// holding makes a node one that a rule holds since a minute.
func holding(n *build.NodeWrapper, r string, more nodeview.Record) *build.NodeWrapper {
	more.Taint, more.Since.Time = "example.com/"+r+"=:NoSchedule", now.Add(-time.Minute)
	return n.Taint("example.com/"+r, "", corev1.TaintEffectNoSchedule).
		Annotation(v1alpha1.RecordAnnotationPrefix+"uid-of-"+r, more.Encode())
}

// marked gives a node the condition as a rule has published it.
func marked(n *build.NodeWrapper, status corev1.ConditionStatus, reason, message string) *build.NodeWrapper {
	return n.Condition(verdictType, status, now.Add(-time.Hour)).Reason(verdictType, reason, message)
}

// changes says what happens to conditions: the status and reason, or "removed".
func changes(o Outcome) []string {
	var out []string
	for _, c := range o.Conditions {
		if c.Remove {
			out = append(out, "removed "+c.Type)
			continue
		}
		out = append(out, fmt.Sprintf("%s %s", c.Status, strings.TrimPrefix(c.Reason, v1alpha1.PublishedReasonPrefix)))
	}
	return out
}

func TestPublishedCondition(t *testing.T) {
	since := now.Add(-time.Hour)
	window := publishing("r").ReadySeconds(7200)
	anyOf := publishing("r").AnyOf().Condition("B")
	kept := publishing("r").Timeout(60, 0, v1alpha1.TimeoutActionRelease)
	stale := rule("r", "B").Publish(verdictType).Require(v1alpha1.ConditionRequirement{Type: "A", RequiredStatus: "True",
		MaxAgeSeconds: new(int32(60))})
	stale.Spec.Conditions = stale.Spec.Conditions[1:]
	driver := publishing("r").Evidence(v1alpha1.Requirement{Name: "driver",
		CEL: &v1alpha1.CELRequirement{Expression: "node.metadata.labels['driver'] == 'v5'"}})
	for name, c := range map[string]struct {
		rule *build.RuleWrapper
		node *build.NodeWrapper
		full bool // maxUnavailable, of taints and of conditions
		want string
	}{
		"the evidence holds": {node: aged().Condition("A", isTrue, since), want: "True Ready"},
		"reported evidence does not hold": {node: node().Condition("A", isFalse, since),
			want: "False NotReady"},
		"a status that no condition has": {node: node().Condition("A", "false", since), want: "Unknown EvidenceMissing"},
		"evidence is missing":            {node: node(), want: "Unknown EvidenceMissing"},
		"a reporter that does not know": {node: node().Condition("A", isUnknown, since),
			want: "Unknown EvidenceMissing"},
		"evidence is stale": {rule: stale,
			node: node().Condition("A", isTrue, since), want: "Unknown EvidenceMissing"},
		"an expression is false": {rule: driver,
			node: node().Condition("A", isTrue, since).Label("driver", "v4"), want: "False NotReady"},
		"an expression cannot be evaluated, because a label is missing": {rule: driver,
			node: node().Condition("A", isTrue, since), want: "Unknown EvidenceMissing"},
		"anyOf, one of them is missing": {rule: anyOf,
			node: node().Condition("A", isFalse, since), want: "Unknown EvidenceMissing"},
		"anyOf, all are reported": {rule: anyOf,
			node: node().Condition("A", isFalse, since).Condition("B", isFalse, since), want: "False NotReady"},
		"over the limit": {rule: publishing("r").MaxUnavailable("1"),
			node: aged().Condition("A", isFalse, since), full: true, want: "Unknown OverBudget"},
		"a new node over the limit": {rule: publishing("r").MaxUnavailable("1"),
			node: node().Created(now).Condition("A", isFalse, since), full: true, want: "Unknown OverBudget"},
		"an existing node": {rule: publishing("r").ExistingNodes("None"),
			node: aged().Condition("A", isFalse, since), want: "Unknown ExistingNode"},
		"timed out": {rule: kept,
			node: holding(node().Condition("A", isFalse, since), "r", nodeview.Record{}), want: "Unknown TimedOut"},
		"ready, not for long enough": {rule: window,
			node: node().Condition("A", isTrue, now.Add(-time.Second)), want: "Unknown ReadyWindow"},
		"a node that recovers stays False": {rule: window,
			node: marked(node().Condition("A", isTrue, now.Add(-time.Second)), isFalse, "NodegateRuleReadyWindow",
				"rule r: the node is held: all evidence holds, but not for long enough yet")},
		"a node that has recovered": {
			node: marked(aged().Condition("A", isTrue, since), isFalse, "NodegateRuleNotReady", "before"),
			want: "True Ready"},
		"a node that was False, and whose evidence is missing": {
			node: marked(node(), isFalse, "NodegateRuleNotReady", "before"), want: "Unknown EvidenceMissing"},
		"nothing but the condition": {rule: publishing("r").Untainted(),
			node: node().Condition("A", isFalse, since), want: "False NotReady"},
		"another controller's condition": {node: marked(node().Condition("A", isFalse, since), isTrue, "KubeletIsFine", ""),
			want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.rule
			if r == nil {
				r = publishing("r")
			}
			in := input(c.node.Obj(), r)
			full := map[bool]string{true: "full"}[c.full]
			in.Reserve = func(*ruleset.Rule, limit.Request) string { return full }
			in.MayMark = func(*ruleset.Rule, limit.Request) string { return full }
			out := DecideNode(in)
			if got := strings.Join(changes(out), ", "); got != c.want {
				t.Errorf("%q, want %q (%s %s)", got, c.want, out.Decisions[0].State, out.Decisions[0].Reason)
			}
			if owns := out.Decisions[0].Record.Published == verdictType; owns != (out.Decisions[0].Unpublished == "") {
				t.Errorf("the record owns the condition: %t", owns)
			}
		})
	}
}

// TestAPublishedConditionAsksTheLimits: for the node's failure domains, and with the time since which it is not ready.
func TestAPublishedConditionAsksTheLimits(t *testing.T) {
	since := now.Add(-time.Hour)
	in := input(aged().Label("rack", "a").Condition("A", isFalse, since).Obj(), publishing("r").LimitPer("rack", "1"))
	want := limit.Request{Use: limit.Marks, Since: since, Domains: "rack=a"}
	var got limit.Request
	in.MayMark = func(_ *ruleset.Rule, ask limit.Request) string {
		got = ask
		return ""
	}
	if DecideNode(in); got != want {
		t.Errorf("asked %+v, want %+v", got, want)
	}
}

// TestANodeThatIsFalseKeepsItsDomain: the place that its published condition uses stays in the failure domain in which
// the condition became False.
func TestANodeThatIsFalseKeepsItsDomain(t *testing.T) {
	since := now.Add(-time.Hour)
	r := publishing("r").LimitPer("rack", "1")
	n := marked(node().Condition("A", isFalse, since).Label("rack", "a"), isFalse, "NodegateRuleNotReady", "")
	for _, c := range []struct{ tells, rack, evidence, want string }{
		{"the node is False", "a", "False", "rack=a"},
		{"its label changes", "b", "False", "rack=a"},
		{"it is ready", "b", "True", "rack=a"}, // the condition is still False
	} {
		obj := n.Label("rack", c.rack).Without("A").Condition("A", corev1.ConditionStatus(c.evidence), since).Obj()
		d := DecideNode(input(obj, r)).Decisions[0]
		if d.Record.Domains != c.want {
			t.Errorf("%s: the record has the domains %q, want %q", c.tells, d.Record.Domains, c.want)
		}
		n = build.WrapNode(obj).Annotation(d.Rule.RecordKey(), d.Record.Encode())
	}
	d := DecideNode(input(marked(n.Without(verdictType), isTrue, "NodegateRuleReady", "").Obj(), r)).Decisions[0]
	if d.Record.Domains != "" {
		t.Errorf("the condition is True: the record has the domains %q", d.Record.Domains)
	}
}

// TestOverridesDoNotChangeThePublishedCondition compares each node with itself under both overrides.
func TestOverridesDoNotChangeThePublishedCondition(t *testing.T) {
	for name, n := range map[string]func() *build.NodeWrapper{
		"ready":           func() *build.NodeWrapper { return aged().Condition("A", isTrue, now.Add(-time.Hour)) },
		"held":            func() *build.NodeWrapper { return node().Condition("A", isFalse, now.Add(-time.Hour)) },
		"without a sign":  node,
		"in service, bad": func() *build.NodeWrapper { return aged().Condition("A", isFalse, now.Add(-time.Hour)) },
	} {
		for which, rules := range map[string][]*build.RuleWrapper{
			"its own evidence": {publishing("r").MaxUnavailable("1")},
			"another rule": {rule("first", "A"),
				build.MakeRule("second").Selector("pool", "a").Publish(verdictType).After("first")},
		} {
			plain := changes(DecideNode(input(n().Obj(), rules...)))
			for _, action := range []nodeview.OverrideAction{nodeview.OverrideHold, nodeview.OverrideRelease} {
				in := input(n().Obj(), rules...)
				in.Override.Action = action
				if diff := cmp.Diff(plain, changes(DecideNode(in))); diff != "" {
					t.Errorf("%s, which requires %s, override %s:\n%s", name, which, action, diff)
				}
			}
		}
	}
}

// TestOverridesDoNotChangeThePublishedConditionOfANodeOverTheLimit: the rule holds as many nodes as it may, but none of
// them is False, because their evidence is missing. So there is room for a condition and none for a taint. Without an
// override, the node is exempt, and its condition is Unknown. One that is False stays so when an override gives the
// place of the node to another one.
func TestOverridesDoNotChangeThePublishedConditionOfANodeOverTheLimit(t *testing.T) {
	decide := func(n *build.NodeWrapper, action nodeview.OverrideAction) []string {
		if action != nodeview.OverrideNone {
			n.Annotation(v1alpha1.OverrideAnnotation, string(action))
		}
		in := input(n.Obj(), publishing("r").MaxUnavailable("1"))
		in.Override.Action = action
		in.Reserve = func(*ruleset.Rule, limit.Request) string { return "as many nodes as maxUnavailable allows" }
		in.MayMark = func(*ruleset.Rule, limit.Request) string { return "" }
		return changes(DecideNode(in))
	}
	bad := func() *build.NodeWrapper { return aged().Condition("A", isFalse, now.Add(-time.Hour)) }
	plain := decide(bad(), nodeview.OverrideNone)
	if diff := cmp.Diff([]string{"Unknown OverBudget"}, plain); diff != "" {
		t.Fatalf("without an override (-want +got):\n%s", diff)
	}
	for _, action := range []nodeview.OverrideAction{nodeview.OverrideHold, nodeview.OverrideRelease} {
		if diff := cmp.Diff(plain, decide(bad(), action)); diff != "" {
			t.Errorf("override %s (-without +with):\n%s", action, diff)
		}
	}
	before := marked(bad(), isFalse, "NodegateRuleNotReady", "rule r: condition A is False, must be True")
	if got := decide(before, nodeview.OverrideRelease); got != nil {
		t.Errorf("with the override Release, the condition that was False changes: %v", got)
	}
}

// TestAPublishedConditionBecomesTrueUnderAnOverride: the node is decided again when its evidence has held long enough.
func TestAPublishedConditionBecomesTrueUnderAnOverride(t *testing.T) {
	for _, action := range []nodeview.OverrideAction{nodeview.OverrideHold, nodeview.OverrideRelease} {
		in := input(node().Condition("A", isTrue, now).Obj(), publishing("r").ReadySeconds(30))
		in.Override.Action = action
		if got := DecideNode(in).RecheckAt; !got.Equal(now.Add(30 * time.Second)) {
			t.Errorf("override %s: the node is looked at again at %v", action, got)
		}
	}
}

func TestModesOfARuleThatPublishes(t *testing.T) {
	record := nodeview.Record{Rule: "r", Published: verdictType}
	was := func(status corev1.ConditionStatus) *build.NodeWrapper {
		return holding(marked(node().Condition("A", isFalse, now.Add(-time.Hour)),
			status, "NodegateRuleNotReady", "before"), "r", record)
	}
	other := publishing("r")
	other.Spec.Publish.ConditionType = "example.com/Other"
	none := publishing("r")
	none.Spec.Publish = nil
	for name, c := range map[string]struct {
		rules  []*build.RuleWrapper
		node   *build.NodeWrapper
		frozen bool
		want   []string
		record string // the type that the first rule's record has afterwards
	}{
		"suspended: False becomes Unknown": {rules: []*build.RuleWrapper{publishing("r").Suspend(true)},
			node: was(isFalse),
			want: []string{"Unknown Suspended"}, record: verdictType},
		"suspended: True stays": {rules: []*build.RuleWrapper{publishing("r").Suspend(true)},
			node: was(isTrue), record: verdictType},
		"suspended: none is added": {rules: []*build.RuleWrapper{publishing("r").Suspend(true)},
			node: node().Condition("A", isFalse, now.Add(-time.Hour))},
		"suspended, and another rule publishes another type": {
			rules: []*build.RuleWrapper{publishing("r").Suspend(true), rule("s", "A").Publish("example.com/Other")},
			node:  was(isFalse), want: []string{"Unknown Suspended", "False NotReady"}, record: verdictType},
		"suspended and in dry-run": {rules: []*build.RuleWrapper{publishing("r").Suspend(true).DryRun(true)},
			node: was(isFalse), want: []string{"removed " + verdictType}, record: verdictType},
		"suspended, and another rule publishes on": {
			rules: []*build.RuleWrapper{publishing("r").Selector("pool", "b").Suspend(true), publishing("s")},
			node:  was(isFalse), want: []string{"False NotReady"}, record: verdictType},
		"suspended, and a younger rule publishes on": {
			rules: []*build.RuleWrapper{publishing("r").Suspend(true), publishing("s")},
			node:  was(isFalse), want: []string{"False NotReady"}, record: verdictType},
		"frozen, and a younger rule publishes on": {rules: []*build.RuleWrapper{publishing("r"), publishing("s")},
			node: was(isFalse), frozen: true, want: []string{"False NotReady"}, record: verdictType},
		"frozen: False stays": {rules: []*build.RuleWrapper{publishing("r")},
			node: was(isFalse), frozen: true, record: verdictType},
		"frozen and in dry-run": {rules: []*build.RuleWrapper{publishing("r").DryRun(true)},
			node: was(isFalse), frozen: true, want: []string{"removed " + verdictType}, record: verdictType},
		"frozen and in dry-run, removed: nothing is left": {rules: []*build.RuleWrapper{publishing("r").DryRun(true)},
			node: was(isFalse).Without(verdictType), frozen: true},
		"dry-run": {rules: []*build.RuleWrapper{publishing("r").DryRun(true)},
			node: was(isTrue), want: []string{"removed " + verdictType}, record: verdictType},
		"deleted": {rules: []*build.RuleWrapper{publishing("r").Deleted(now)},
			node: was(isTrue), want: []string{"removed " + verdictType}, record: verdictType},
		"not matched": {rules: []*build.RuleWrapper{publishing("r").Selector("pool", "b")},
			node: was(isTrue), want: []string{"removed " + verdictType}, record: verdictType},
		"publish removed": {rules: []*build.RuleWrapper{none},
			node: was(isTrue), want: []string{"removed " + verdictType}, record: verdictType},
		"another type, first the old one is removed": {rules: []*build.RuleWrapper{other},
			node: was(isTrue), want: []string{"removed " + verdictType}, record: verdictType},
		"another type, then the new one is published": {rules: []*build.RuleWrapper{other},
			node: was(isTrue).Without(verdictType),
			want: []string{"False NotReady"}, record: "example.com/Other"},
		"removed by another: nothing is left": {rules: []*build.RuleWrapper{publishing("r").Deleted(now)},
			node: was(isTrue).Without(verdictType)},
		"another controller's now: not touched": {rules: []*build.RuleWrapper{publishing("r").Deleted(now)},
			node: was(isTrue).Reason(verdictType, "Other", "")},
		"deleted, and another rule publishes on": {rules: []*build.RuleWrapper{publishing("r").Deleted(now), publishing("s")},
			node: was(isTrue), want: []string{"False NotReady"}},
		"an older rule publishes it": {
			rules: []*build.RuleWrapper{publishing("r"), publishing("s").Created(now.Add(-9 * time.Hour))},
			node:  node().Condition("A", isTrue, now.Add(-time.Hour)), want: []string{"True Ready"}},
		"a probe publishes it": {
			rules: []*build.RuleWrapper{publishing("r"), rule("s", "A").Probe(verdictType, 1)},
			node:  node().Condition("A", isTrue, now.Add(-time.Hour))},
		"a probe publishes it: ours is taken off": {
			rules: []*build.RuleWrapper{publishing("r"), rule("s", "A").Probe(verdictType, 1)},
			node:  was(isTrue), want: []string{"removed " + verdictType}, record: verdictType},
		"an older rule has a probe like ours": {
			rules: []*build.RuleWrapper{publishing("r").Probe("example.com/P", 1),
				rule("s", "A").Created(now.Add(-9*time.Hour)).Probe("example.com/P", 1)},
			node: was(isTrue), want: []string{"False NotReady"}, record: verdictType},
		"an older rule in dry-run does not": {
			rules: []*build.RuleWrapper{publishing("r"), publishing("s").Created(now.Add(-9 * time.Hour)).DryRun(true)},
			node:  node().Condition("A", isTrue, now.Add(-time.Hour)),
			want:  []string{"True Ready"}, record: verdictType},
		"a terminating node is left as it is": {rules: []*build.RuleWrapper{publishing("r")},
			node: was(isTrue).Terminating(now), record: verdictType},
		"deleted, and the node, which gets no condition of another rule": {
			rules: []*build.RuleWrapper{publishing("r").Deleted(now), publishing("s")},
			node:  was(isTrue).Terminating(now), want: []string{"removed " + verdictType}, record: verdictType},
		"deleted, and the node, whose condition is removed": {
			rules: []*build.RuleWrapper{publishing("r").Deleted(now), publishing("s")},
			node:  was(isTrue).Terminating(now).Without(verdictType)},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(c.node.Obj(), c.rules...)
			if c.frozen {
				frozen := in.Rules.Named("r").Freeze(ruleset.Problem{Reason: "Invalid", Message: "x"})
				in.Rules = in.Rules.With(frozen)
			}
			out := DecideNode(in)
			if diff := cmp.Diff(c.want, changes(out)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, d := range out.Decisions {
				published := d.Record.Published
				if d.Frozen {
					published = d.Was.Record.Published
				}
				if d.Rule.Name == "r" && published != c.record {
					t.Errorf("the record has %q, want %q", published, c.record)
				}
			}
		})
	}
}

// TestARuleThatTakesOverAConditionAsksItsOwnLimit: a condition that is False because of another rule is not within it.
// One that the rule itself has made False stays so, also after a restart.
func TestARuleThatTakesOverAConditionAsksItsOwnLimit(t *testing.T) {
	limited := func() *build.RuleWrapper { return publishing("s").MaxUnavailable("1") }
	suspended, deleted := publishing("r").Suspend(true), publishing("r").Deleted(now)
	for name, c := range map[string]struct {
		rules []*build.RuleWrapper
		by    string // the rule that has made the condition False
		full  bool
		want  string
		marks bool // the limit counts the condition before
	}{
		"of a suspended rule, no room": {[]*build.RuleWrapper{suspended, limited()}, "r", true, "Unknown OverBudget",
			false},
		"of a suspended rule, room":   {[]*build.RuleWrapper{suspended, limited()}, "r", false, "False NotReady", false},
		"of a deleted rule, no room":  {[]*build.RuleWrapper{deleted, limited()}, "r", true, "Unknown OverBudget", false},
		"of a deleted rule, room":     {[]*build.RuleWrapper{deleted, limited()}, "r", false, "False NotReady", false},
		"of a rule that is not known": {[]*build.RuleWrapper{limited()}, "r", true, "Unknown OverBudget", false},
		"and no limit": {[]*build.RuleWrapper{suspended, publishing("s")}, "r", true, "False NotReady",
			false},
		"and not ready for long enough": {[]*build.RuleWrapper{suspended, limited().Condition("B").ReadySeconds(7200)}, "r",
			false, "Unknown ReadyWindow", false},
		"its own, no room": {[]*build.RuleWrapper{suspended, limited()}, "s", true, "", true},
		"its own, room":    {[]*build.RuleWrapper{suspended, limited()}, "s", false, "", true},
		"of a rule whose name begins alike": {[]*build.RuleWrapper{limited()}, "s-1", true, "Unknown OverBudget",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			evidence := isFalse
			if strings.HasSuffix(c.want, "ReadyWindow") {
				evidence = isTrue
			}
			n := marked(node().Condition("A", evidence, now.Add(-time.Hour)).Condition("B", isTrue, now.Add(-time.Hour)),
				isFalse, "NodegateRuleNotReady", "rule "+c.by+": condition A is False, must be True").
				Heartbeat(verdictType, now.Add(-time.Second)).
				Annotation(v1alpha1.RecordAnnotationPrefix+"uid-of-"+c.by, nodeview.Record{Published: verdictType}.Encode())
			in := input(n.Obj(), c.rules...)
			asked := false
			in.MayMark = func(*ruleset.Rule, limit.Request) string {
				asked = true
				return map[bool]string{true: "full"}[c.full]
			}
			out := DecideNode(in)
			if got := strings.Join(changes(out), ", "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			for _, d := range out.Decisions {
				if d.Rule.Name == "s" && (d.Was.MarkedFalse != c.marks || asked && c.marks) {
					t.Errorf("the limit counts it: %t, is asked: %t", d.Was.MarkedFalse, asked)
				}
			}
		})
	}
}

func TestAConditionThatDoesNotChangeIsNotWritten(t *testing.T) {
	message := "rule r: condition A is False, must be True"
	for name, c := range map[string]struct {
		message string
		reason  string // by default that of a node that is not ready
		ago     time.Duration
		want    int
		recheck time.Duration
	}{
		"the same": {message: message, ago: time.Hour},
		"another reason, within the minute": {message: message, reason: "NodegateRuleReadyWindow",
			ago: time.Second, want: 1},
		"another message, a minute later":          {message: "rule r: other", ago: 61 * time.Second, want: 1},
		"another message, within the minute":       {message: "rule r: other", ago: time.Minute, recheck: time.Second},
		"another message, by a clock a year ahead": {message: "rule r: other", ago: -365 * 24 * time.Hour, want: 1},
	} {
		reason := "NodegateRuleNotReady"
		if c.reason != "" {
			reason = c.reason
		}
		n := marked(node().Condition("A", isFalse, now.Add(-time.Hour)), isFalse, reason, c.message).
			Heartbeat(verdictType, now.Add(-c.ago)).Obj()
		out := DecideNode(input(n, publishing("r")))
		if len(out.Conditions) != c.want {
			t.Errorf("%s: %v", name, changes(out))
		}
		if c.recheck > 0 && !out.RecheckAt.Equal(now.Add(c.recheck)) {
			t.Errorf("%s: looks again at %v", name, out.RecheckAt)
		}
		body, err := publish.ConditionsPatch(n, out.Conditions, now)
		if since := now.Add(-time.Hour).Format(time.RFC3339); err != nil || c.want == 1 &&
			!strings.Contains(string(body), fmt.Sprintf(`"lastTransitionTime":%q`, since)) {
			t.Errorf("%s: the transition time changes with the message: %s, %v", name, body, err)
		}
	}
}

func TestALongMessageIsCut(t *testing.T) {
	r := publishing("r")
	for i := range 30 {
		r.Condition(fmt.Sprintf("example.com/%s-%d", strings.Repeat("ü", 40), i))
	}
	n := node().Condition("A", isFalse, now.Add(-time.Hour)).Obj()
	out := DecideNode(input(n, r))
	if m := out.Conditions[0].Message; len(m) > 1024 || len(m) < 1000 || !strings.HasSuffix(m, "...") {
		t.Errorf("%d bytes: %s", len(m), m)
	}
}

// TestARequiredRuleThatMayHoldDoesNotRefute: whether the other rule holds is not known while its evidence is missing.
func TestARequiredRuleThatMayHoldDoesNotRefute(t *testing.T) {
	second := rule("second", "B").Publish(verdictType).After("first")
	spared := aged().Condition("A", isFalse, now.Add(-time.Hour)).Condition("B", isTrue, now.Add(-time.Hour)).Obj()
	exempt := changes(DecideNode(input(spared, rule("first", "A").ExistingNodes("None"), second)))
	if got := strings.Join(exempt, ","); got != "Unknown EvidenceMissing" {
		t.Errorf("%s, where the other rule does not hold the node", got)
	}
	n := func() *build.NodeWrapper { return node().Condition("B", isTrue, now.Add(-time.Hour)) }
	for want, of := range map[string]*build.NodeWrapper{
		"Unknown EvidenceMissing": n(),
		"False NotReady":          n().Condition("A", isFalse, now.Add(-time.Hour)),
		"True Ready":              n().Condition("A", isTrue, now.Add(-time.Hour)),
	} {
		if got := strings.Join(changes(DecideNode(input(of.Obj(), rule("first", "A"), second))), ","); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestConditionsPatch(t *testing.T) {
	n := marked(node().Condition("A", isFalse, now.Add(-time.Hour)), isTrue, "NodegateRuleReady", "x").Obj()
	n.UID, n.ResourceVersion = types.UID("uid"), "7"
	out := DecideNode(input(n, publishing("r"), publishing("gone").Deleted(now)))
	out.Conditions = append(out.Conditions, publish.ConditionChange{Type: "A", Remove: true})
	body, err := publish.ConditionsPatch(n, out.Conditions, now)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = strategicpatch.StrategicMergePatch(raw, body, corev1.Node{}); err != nil {
		t.Fatal(err)
	}
	after := &corev1.Node{}
	if err := json.Unmarshal(raw, after); err != nil {
		t.Fatal(err)
	}
	c := after.Status.Conditions
	if len(c) != 1 || c[0].Status != isFalse || c[0].Reason != "NodegateRuleNotReady" ||
		c[0].Message != "rule r: condition A is False, must be True" || !c[0].LastTransitionTime.Time.Equal(now) {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(string(body), `{"resourceVersion":"7","uid":"uid"}`) {
		t.Errorf("a patch for any version of the node: %s", body)
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	. "github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

// decided is the decision about a node that is relabelled so that it matches, and its record as text.
func decided(r *build.RuleWrapper, n *build.NodeWrapper, occupied, busy, unknown bool) (state.Decision, *corev1.Node) {
	compiled := ruleset.Compile(r.Created(now.Add(-time.Hour)).Obj(), nil, now)
	obj := n.Obj()
	out := DecideNode(&NodeInput{
		Node: obj, Swept: obj, Rules: ruleset.NewSet(compiled), Evidence: &evidence.Gathered{}, Now: now,
		Observed: func(*ruleset.Rule) readiness.Observed { return readiness.Observed{Since: now.Add(-time.Minute)} },
		Reserve:  func(*ruleset.Rule, limit.Request) string { return "full" },
		Occupied: func(*corev1.Taint) (bool, bool) { return occupied, !unknown },
		Busy:     func() (bool, bool) { return busy, !unknown },
	})
	d := out.Decisions[0]
	if !d.Record.Empty() {
		metav1.SetMetaDataAnnotation(&obj.ObjectMeta, compiled.RecordKey(), d.Record.Encode())
	}
	return d, obj
}

func TestANodeThatRunsPodsWhenItComesToMatchIsInService(t *testing.T) {
	old := func() *build.NodeWrapper { return node().Created(now.Add(-11 * time.Minute)) }
	existing := func(r *build.RuleWrapper, e v1alpha1.ExistingNodesPolicy) *build.RuleWrapper {
		r.Spec.ExistingNodes = e
		return r
	}
	for name, c := range map[string]struct {
		rule    *build.RuleWrapper
		node    *build.NodeWrapper
		idle    bool // no pod that the taint would evict
		unknown bool // its pods could not be listed
		want    string
	}{
		"maxUnavailable applies": {rule: rule("r", "A").MaxUnavailable("1"), node: old(), want: "OverBudget"},
		"existingNodes applies": {rule: existing(rule("r", "A"), v1alpha1.ExistingNodesNone), node: old(),
			want: "ExistingNode"},
		"unreadySeconds applies": {rule: rule("r", "A").UnreadySeconds(300), node: old(), want: "UnreadyWindow"},
		"not to a node that runs none": {rule: rule("r", "A").MaxUnavailable("1"), node: old(), idle: true,
			want: "EvidenceMissing"},
		"not to a young node": {rule: rule("r", "A").MaxUnavailable("1"),
			node: node().Created(now.Add(-10 * time.Minute)), want: "EvidenceMissing"},
		"while its pods are unknown, too": {rule: rule("r", "A").MaxUnavailable("1"), node: old(), unknown: true,
			want: "OverBudget"},
		"one that is tainted already is held": {rule: rule("r", "A").MaxUnavailable("1"),
			node: old().Taint("example.com/r", "", corev1.TaintEffectNoSchedule), want: "EvidenceMissing"},
		"one that another rule has tainted is not": {rule: rule("r", "A").MaxUnavailable("1"),
			node: old().Taint("example.com/r", "", corev1.TaintEffectNoSchedule).
				Annotation("nodegate.io/rule-other", `{"taint":"example.com/r=:NoSchedule"}`), want: "OverBudget"},
	} {
		t.Run(name, func(t *testing.T) {
			d, after := decided(c.rule, c.node, !c.idle && !c.unknown, true, c.unknown)
			if d.Reason != c.want || strings.HasPrefix(d.Message(now), "full: ") != (c.want == state.ReasonOverBudget) {
				t.Fatalf("%s, want %s: %s", d.Reason, c.want, d.Message(now))
			}
			if c.unknown && !d.RecheckAt.Equal(now.Add(30*time.Second)) {
				t.Errorf("lists its pods again at %s", d.RecheckAt)
			}
			// It stays so: its pods are not read again.
			again, _ := decided(c.rule, build.WrapNode(after), false, false, false)
			if d.Record.Existing && again.Reason != c.want {
				t.Errorf("then %s", again.Reason)
			}
			if s := nodeview.StateOf(d.Rule, after, now); d.Record.Existing != s.Counted {
				t.Errorf("existing %t, counted %t", d.Record.Existing, s.Counted)
			}
		})
	}
}

// TestReleaseUnderAFrozenRuleIsNoStart: whether the node was in service is decided when the rule is in force again.
func TestReleaseUnderAFrozenRuleIsNoStart(t *testing.T) {
	r := rule("r", "A").MaxUnavailable("1")
	compiled := ruleset.Compile(r.Created(now.Add(-time.Hour)).Obj(), nil, now).
		Freeze(ruleset.Problem{Reason: "EvidenceUnavailable"})
	obj := node().Created(now.Add(-11*time.Minute)).Annotation(v1alpha1.OverrideAnnotation, "Release").Obj()
	d := state.Decide(nodeview.Input{Rule: compiled, Node: obj, State: nodeview.StateOf(compiled, obj, now), Now: now,
		Override: nodeview.Override{Action: nodeview.OverrideRelease}}).Granted
	delete(obj.Annotations, v1alpha1.OverrideAnnotation)
	if !d.Record.Empty() {
		obj.Annotations[compiled.RecordKey()] = d.Record.Encode()
	}
	if again, _ := decided(r, build.WrapNode(obj), true, true, false); again.Reason != state.ReasonOverBudget {
		t.Errorf("a node that runs pods: %s %s, want OverBudget (record %v)", again.State, again.Reason, obj.Annotations)
	}
}

func TestExistingNodesIdleIsDecidedOnce(t *testing.T) {
	r := rule("r", "A")
	r.Spec.ExistingNodes = v1alpha1.ExistingNodesIdle
	d, after := decided(r, node().Created(now.Add(-2*time.Hour)), true, true, false)
	if again, _ := decided(r, build.WrapNode(after), false, false, false); d.Reason != state.ReasonExistingNode ||
		again.Reason != state.ReasonExistingNode {
		t.Errorf("%s, and when it is idle %s", d.Reason, again.Reason)
	}
	d, _ = decided(r, node().Created(now.Add(-2*time.Hour)), false, false, false)
	if d.Reason != state.ReasonEvidenceMissing {
		t.Errorf("idle from the start: %s", d.Reason)
	}
	for _, age := range []time.Duration{2 * time.Hour, 11 * time.Minute} { // before the rule, and relabelled
		d, after := decided(r, node().Created(now.Add(-age)), false, false, true)
		if again, _ := decided(r, build.WrapNode(after), false, false, false); d.Reason != state.ReasonExistingNode ||
			!d.RecheckAt.Equal(now.Add(30*time.Second)) || again.Reason != state.ReasonEvidenceMissing {
			t.Errorf("%s until its pods are known, asked again at %s; idle: %s", d.Reason, d.RecheckAt, again.Reason)
		}
	}
}

// TestBusyIsAskedOnlyIfItMakesADifference: the answer may need a list of pods.
func TestBusyIsAskedOnlyIfItMakesADifference(t *testing.T) {
	old := func() *build.NodeWrapper { return node().Created(now.Add(-2 * time.Hour)) }
	for name, c := range map[string]struct {
		node   *build.NodeWrapper
		policy v1alpha1.ExistingNodesPolicy
		want   string
	}{
		"the control plane": {old().Label("node-role.kubernetes.io/control-plane", ""), "Idle", state.ReasonExistingNode},
		"a new node":        {node(), "Idle", state.ReasonEvidenceMissing},
		"a tainted node":    {old().Taint(taint, "", corev1.TaintEffectNoSchedule), "Idle", state.ReasonEvidenceMissing},
		"a released node": {old().Annotation("nodegate.io/rule-uid-of-r",
			`{"released":"2026-01-02T03:04:00Z"}`), "Idle", state.ReasonEvidenceMissing},
		"All":                        {old(), "All", state.ReasonEvidenceMissing},
		"None":                       {old(), "None", state.ReasonExistingNode},
		"a node in its readySeconds": {old().Condition("A", "True", now), "Idle", state.ReasonReadyWindow},
	} {
		in := input(c.node.Obj(), rule("r", "A").ExistingNodes(c.policy).ReadySeconds(30))
		in.Busy = func() (bool, bool) { t.Errorf("%s: asked", name); return false, true }
		if got := DecideNode(in).Decisions[0].Reason; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	// The plugin does not know the answer.
	if got := DecideNode(input(old().Obj(), rule("r", "A").ExistingNodes("Idle"))).Decisions[0].Reason; got !=
		state.ReasonExistingNode {
		t.Errorf("a node without knowledge of its pods: %s", got)
	}
}

// TestWhetherANodeIsOccupiedIsAskedOnlyIfItMakesADifference: the answer may need a list of pods. A node that was known
// to the rule before does not begin in service.
func TestWhetherANodeIsOccupiedIsAskedOnlyIfItMakesADifference(t *testing.T) {
	old := func() *build.NodeWrapper { return node().Created(now.Add(-11 * time.Minute)) }
	for name, c := range map[string]struct {
		node *build.NodeWrapper
		want string
	}{
		"a terminating node": {old().Terminating(now), state.ReasonTerminating},
		"one with a record": {old().Annotation("nodegate.io/rule-uid-of-r",
			`{"counted":true}`), state.ReasonEvidenceMissing},
		"one from before the rule":    {old().Created(now.Add(-2 * time.Hour)), state.ReasonEvidenceMissing},
		"one that is tainted already": {old().Taint(taint, "", corev1.TaintEffectNoSchedule), state.ReasonEvidenceMissing},
		"a ready node":                {old().Condition("A", "True", now.Add(-time.Minute)), state.ReasonEvidenceHolds},
	} {
		in := input(c.node.Obj(), rule("r", "A"))
		in.Occupied = func(*corev1.Taint) (bool, bool) { t.Errorf("%s: asked", name); return true, true }
		if d := DecideNode(in).Decisions[0]; d.Reason != c.want || d.Record.Existing {
			t.Errorf("%s: %s, want %s; existing: %t", name, d.Reason, c.want, d.Record.Existing)
		}
	}
}

func TestAClaimThatUsedTheLimitCountsOnACordonedNode(t *testing.T) {
	compiled := ruleset.Compile(rule("r", "A").MaxUnavailable("1").Obj(), nil, now)
	n := node().Created(now.Add(-2 * time.Hour)).Obj()
	claim := nodeview.Input{Rule: compiled, Node: n, Verdict: readiness.Verdict{Since: now.Add(-time.Minute)}, Now: now}
	claim.State = nodeview.StateOf(compiled, n, now)
	for name, c := range map[string]struct {
		before, after bool // cordoned
		want, asks    bool // asks: the limit decides whether the claim stays
	}{
		"cordoned after the claim":  {after: true, want: true},
		"cordoned before the claim": {before: true, after: true},
		"and uncordoned again":      {before: true, asks: true},
	} {
		n.Spec.Unschedulable, n.Spec.Taints, n.Annotations = c.before, nil, nil
		claim.State = nodeview.StateOf(compiled, n, now)
		d := state.Decide(claim)
		if limited := d.Otherwise != nil; limited == c.before || !d.Granted.Claim {
			t.Errorf("%s: limited %t, claim %t", name, limited, d.Granted.Claim)
		}
		n.Annotations = map[string]string{compiled.RecordKey(): d.Granted.Record.Encode()}
		n.Spec.Unschedulable, n.Spec.Taints = c.after, []corev1.Taint{*compiled.Taint}
		if s := nodeview.StateOf(compiled, n, now); s.Counted != c.want {
			t.Errorf("%s: counted %t", name, s.Counted)
		}
		claim.State = nodeview.StateOf(compiled, n, now)
		if d := state.Decide(claim); (d.Otherwise != nil) != c.asks || !d.Granted.Claim {
			t.Errorf("%s: then limited %t, claim %t", name, d.Otherwise != nil, d.Granted.Claim)
		}
	}
}

func TestNothingIsObservedWhileARuleIsFrozen(t *testing.T) {
	compiled := ruleset.Compile(rule("r", "A").UnreadySeconds(300).Created(now.Add(-time.Hour)).Obj(), nil, now)
	frozen := compiled.Freeze(ruleset.Problem{Reason: "EvidenceUnavailable"})
	before := readiness.Observed{Ready: true, Since: now.Add(-time.Hour)}
	obj := node().Created(now.Add(-2 * time.Hour)).Obj()
	out := DecideNode(&NodeInput{
		Node: obj, Swept: obj, Rules: ruleset.NewSet(frozen), Evidence: &evidence.Gathered{}, Now: now,
		Observed: func(*ruleset.Rule) readiness.Observed { return before },
		Reserve:  func(*ruleset.Rule, limit.Request) string { return "full" },
	})
	if got := out.Decisions[0].Verdict.Observed; got != before {
		t.Errorf("observed %+v: unreadySeconds would run while the evidence cannot be read", got)
	}
}

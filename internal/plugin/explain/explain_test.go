// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

const (
	cni   = "example.com/CNI"
	taint = "readiness.k8s.io/NetworkReady"
)

// filed is the rule as a file has it; network, as the API server does.
func filed() *build.RuleWrapper {
	return build.MakeRule("network").Selector("pool", "a").Condition(cni).
		Taint(taint, "pending", corev1.TaintEffectNoSchedule)
}

func network() *build.RuleWrapper { return filed().UID("u1").Generation(1).Created(ago(time.Hour)) }

func worker() *build.NodeWrapper {
	return build.MakeNode("worker-3").UID("n").Created(ago(20*time.Minute)).Label("pool", "a").Condition("Ready", "True",
		ago(19*time.Minute))
}

func record(n *build.NodeWrapper, uid string, r nodeview.Record) *build.NodeWrapper {
	return n.Annotation(v1alpha1.RecordAnnotationPrefix+uid, r.Encode())
}

// held is a node with the taint and the record of rule network.
func held() *build.NodeWrapper { return holding(worker(), 13*time.Minute) }

func holding(n *build.NodeWrapper, since time.Duration) *build.NodeWrapper {
	return record(n.Taint(taint, "pending", corev1.TaintEffectNoSchedule), "u1",
		nodeview.Record{Rule: "network", Taint: taint + "=pending:NoSchedule", Since: metav1.NewTime(ago(since))})
}

// explained explains a node under rules.
func explained(n *build.NodeWrapper, rules ...*build.RuleWrapper) *report.NodeExplanation {
	return moment(n, rules...).Node(n.Obj())
}

func moment(n *build.NodeWrapper, rules ...*build.RuleWrapper) *Moment {
	w := &Moment{Rules: ruleset.NewSet(), Now: now, Pods: func(string) ([]corev1.Pod, error) { return nil, nil },
		Nodes: func() ([]*corev1.Node, error) { return []*corev1.Node{n.Obj()}, nil }}
	for _, r := range rules {
		w.Rules = w.Rules.With(ruleset.Compile(r.Obj(), nil, now))
		stored := r.Obj().DeepCopy()
		stored.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady}} // an operator acts on the rule
		w.Stored = append(w.Stored, *stored)
	}
	w.Evidence = sources.Of(nil, w.Rules)
	return w
}

// unreported makes a moment one at which no operator has reported on the rules.
func unreported(w *Moment) {
	for i := range w.Stored {
		w.Stored[i].Status.Conditions = nil
	}
}

func requires(r *build.RuleWrapper, q v1alpha1.Requirement) *build.RuleWrapper {
	q.Name = "q"
	return r.Evidence(q)
}

func TestSummary(t *testing.T) {
	dry := network().DryRun(true)
	limited := network().MaxUnavailable("0")
	for name, c := range map[string]struct {
		node  *build.NodeWrapper
		rules []*build.RuleWrapper
		edit  func(*Moment)
		want  string
		held  bool
	}{
		"held": {
			node: held(), rules: []*build.RuleWrapper{network()}, held: true,
			want: "Node worker-3 is held by rule network for 13m: condition example.com/CNI has not been reported, must be " +
				"True.",
		},
		"held by a suspended rule, and relabelled": {
			node: held().Unlabel("pool"), rules: []*build.RuleWrapper{network().Suspend(true)}, held: true,
			want: "Node worker-3 is held by rule network for 13m: the rule no longer selects the node, but is suspended: the " +
				"operator leaves what it wrote there.",
		},
		"held by two": {
			node: record(held(), "u2", nodeview.Record{Taint: taint + "=pending:NoSchedule",
				Since: metav1.NewTime(ago(time.Minute))}),
			rules: []*build.RuleWrapper{network(), build.MakeRule("other").UID("u2").Created(ago(time.Hour)).Selector("pool",
				"a").Condition("x").Taint(taint, "", "NoSchedule")},
			held: true, want: "Node worker-3 is held by 2 rules: network, other.",
		},
		"about to be released": {
			node: held().Condition(cni, "True", ago(time.Second)), rules: []*build.RuleWrapper{network()}, held: true,
			want: "Node worker-3 is held by rule network for 13m and is about to be released: all its evidence holds.",
		},
		"to be released when an operator leads": {
			node: held().Condition(cni, "True", ago(time.Second)), rules: []*build.RuleWrapper{network()}, held: true,
			edit: func(w *Moment) { w.Operator = &report.Operator{} },
			want: "Node worker-3 is held by rule network for 13m and will, as soon as an operator leads, be released: all " +
				"its evidence holds.",
		},
		"about to be held": {
			node: worker(), rules: []*build.RuleWrapper{network()},
			want: "Node worker-3 is not held yet; rule network is about to hold it: condition example.com/CNI has not been " +
				"reported, must be True.",
		},
		"to be held when an operator acts on the rule": {
			node: worker(), rules: []*build.RuleWrapper{network()}, edit: unreported,
			want: "Node worker-3 is not held yet; rule network would, if an operator acted on it, hold it: condition " +
				"example.com/CNI has not been reported, must be True.",
		},
		"to be held when the operator acts on a rule that is not new": {
			node: worker(), rules: []*build.RuleWrapper{network()},
			edit: func(w *Moment) { unreported(w); w.Operator = &report.Operator{Leads: true} },
			want: "Node worker-3 is not held yet; rule network would, if an operator acted on it, hold it: condition " +
				"example.com/CNI has not been reported, must be True.",
		},
		"about to be held by a new rule": {
			node: worker(), rules: []*build.RuleWrapper{network()},
			edit: func(w *Moment) {
				unreported(w)
				w.Stored[0].CreationTimestamp, w.Operator = metav1.NewTime(now), &report.Operator{Leads: true}
			},
			want: "Node worker-3 is not held yet; rule network is about to hold it: condition example.com/CNI has not been " +
				"reported, must be True.",
		},
		"ready": {
			node: worker().Condition(cni, "True", ago(time.Minute)), rules: []*build.RuleWrapper{network()},
			want: "Node worker-3 is not held: rule network selects it: all its evidence holds.",
		},
		"no rule": {
			node: worker().Label("pool", "b"), rules: []*build.RuleWrapper{network()}, want: "Node worker-3 is not held: no " +
				"rule selects it.",
		},
		"no rule, and still no place for pods": {
			node: worker().Label("pool", "b").Taint("node.kubernetes.io/not-ready", "",
				corev1.TaintEffectNoExecute), rules: []*build.RuleWrapper{network()},
			want: "Node worker-3 is not held: no rule selects it; other taints keep pods off: " +
				"node.kubernetes.io/not-ready:NoExecute.",
		},
		"in dry-run": {
			node: worker(), rules: []*build.RuleWrapper{dry},
			want: "Node worker-3 is not held: it is exempt from rule network: the rule is in dry-run; if enforced, it would " +
				"hold the node: condition example.com/CNI has not been reported, must be True.",
		},
		"over budget": {
			node: worker().Created(ago(2 * time.Hour)), rules: []*build.RuleWrapper{limited},
			want: "Node worker-3 is not held: it is exempt from rule network: maxUnavailable " +
				"allows no node (0): condition example.com/CNI has not been reported, must be True.",
		},
		"over the limit of its rack": {
			node:  worker().Created(ago(2*time.Hour)).Label("rack", "a"),
			rules: []*build.RuleWrapper{network().LimitPer("", "50%").LimitPer("rack", "0")},
			want: "Node worker-3 is not held: it is exempt from rule network: limits[1] allows no node (0 per " +
				"rack): condition example.com/CNI has not been reported, must be True.",
		},
		"over a rate": {
			node:  worker().Created(ago(2 * time.Hour)),
			rules: []*build.RuleWrapper{network().LimitPer("", "50%").Rate(1, 600)},
			edit: func(w *Moment) {
				w.Stored[0].Status.Rate = &v1alpha1.RateStatus{ClaimTimes: []metav1.Time{metav1.NewTime(ago(time.Minute))}}
			},
			want: "Node worker-3 is not held: it is exempt from rule network: limits[1] (1 within 10m0s) allows the next node " +
				"at 2026-01-02T03:13:05Z: condition example.com/CNI has not been reported, must be True.",
		},
		"held by its override": {
			node: held().Annotation(v1alpha1.OverrideAnnotation, "Hold;until=2026-01-02T05:04:05Z").Condition(cni, "True",
				ago(time.Minute)), rules: []*build.RuleWrapper{network()}, held: true,
			want: "Node worker-3 is held by its override for another 120m.",
		},
		"released by its override": {
			node: worker().Annotation(v1alpha1.OverrideAnnotation, "Release"), rules: []*build.RuleWrapper{network()},
			want: "Node worker-3 is released by its override: no rule holds it, regardless of its evidence.",
		},
		"one of several does": {
			node: worker(), rules: []*build.RuleWrapper{network().AnyOf().Condition("example.com/Other")},
			want: "Node worker-3 is not held yet; rule network is about to hold it: none of these holds: condition " +
				"example.com/CNI has not been reported, must be True; condition example.com/Other has not been reported, must " +
				"be True.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := moment(c.node, c.rules...)
			if c.edit != nil {
				c.edit(w)
			}
			got := w.Node(c.node.Obj())
			if diff := cmp.Diff(c.want, got.Summary); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if got.Held != c.held {
				t.Errorf("held: %t", got.Held)
			}
		})
	}
}

// TestKeptEndpointsAreExplained: pods that are ready on a node that is not are kept so.
func TestKeptEndpointsAreExplained(t *testing.T) {
	rule := build.MakeRule("guard").UID("u1").Created(ago(time.Hour)).Selector("pool", "a").Condition("Ready").
		EvictionGuard(1800).Endpoints(50, 600)
	n := record(worker().Condition("Ready", "Unknown", ago(time.Minute)), "u1",
		nodeview.Record{GuardedSince: metav1.NewTime(ago(time.Minute))})
	w := moment(n, rule)
	w.Pods = func(node string) ([]corev1.Pod, error) {
		ready, not := *build.MakePod("default", "a").Node(node).Obj(), *build.MakePod("default", "b").Node(node).Obj()
		ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return []corev1.Pod{ready, not, ready}, nil
	}
	e := w.Node(n.Obj())
	if got := e.Rules[0].Guard; got != "eviction guard active for 60s: its pods are not evicted, and 2 stay ready "+
		"because of an outage" {
		t.Errorf("got %q", got)
	}
	if e.Next == nil || !e.Next.At.Equal(&metav1.Time{Time: ago(-9 * time.Minute)}) {
		t.Errorf("next is %+v", e.Next)
	}
}

// TestAConditionThatLimitsKeepUnknownIsExplained: the message on the node says which limit that is.
func TestAConditionThatLimitsKeepUnknownIsExplained(t *testing.T) {
	const verdict, why = "example.com/Verdict", "rule network: maxUnavailable allows no node (0): condition is False"
	n := record(worker().Taint(taint, "pending", corev1.TaintEffectNoSchedule).Condition(cni, "False", ago(time.Minute)).
		Condition(verdict, "Unknown", ago(time.Minute)).Reason(verdict, "NodegateRuleOverBudget", why), "u1",
		nodeview.Record{Rule: "network", Taint: taint + "=pending:NoSchedule", Since: metav1.NewTime(ago(19 * time.Minute)),
			Published: verdict})
	want := &report.Published{Type: verdict, Status: "Unknown", Reason: "NodegateRuleOverBudget", Message: why}
	e := explained(n, network().Publish(verdict).MaxUnavailable("0"))
	if diff := cmp.Diff(want, e.Rules[0].Published); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAnEvictionGuardIsExplained(t *testing.T) {
	rule := build.MakeRule("guard").UID("u1").Created(ago(time.Hour)).Selector("pool",
		"a").Condition(cni).EvictionGuard(1800)
	n := record(worker().Condition(cni, "False", ago(10*time.Minute)), "u1",
		nodeview.Record{GuardedSince: metav1.NewTime(ago(10 * time.Minute))})
	e := explained(n, rule)
	if want := "Node worker-3 has no rule's taint, but is not ready under rule guard, which has none: condition " +
		"example.com/CNI is False, must be True."; e.Summary != want {
		t.Errorf("got %q", e.Summary)
	}
	if got := e.Rules[0].Guard; got != "eviction guard active for 10m: its pods are not evicted" {
		t.Errorf("got %q", got)
	}
	if e.Next == nil || !e.Next.At.Time.Equal(now.Add(20*time.Minute)) || !strings.Contains(e.Next.What,
		"its eviction guard ends") {
		t.Errorf("got %+v", e.Next)
	}
	ended := record(worker().Condition(cni, "False", ago(40*time.Minute)), "u1",
		nodeview.Record{GuardedSince: metav1.NewTime(ago(20 * time.Minute)), GuardEnded: metav1.NewTime(ago(time.Minute))})
	if got := explained(ended, build.WrapRule(rule.Obj()).EvictionGuard(600)).Rules[0].Guard; !strings.Contains(got,
		"eviction guard ended: maxHoldSeconds have passed") {
		t.Errorf("got %q", got)
	}
	ended.Annotation(v1alpha1.OverrideAnnotation, "Release")
	want := "eviction guard ended: the override annotation releases the node"
	if got := explained(ended, rule).Rules[0].Guard; got != want {
		t.Errorf("got %q", got)
	}
}

func TestWhoAddedTheTaint(t *testing.T) {
	other := build.MakeRule("other").UID("u2").Created(ago(time.Hour)).Selector("pool", "a").Condition("Ready").
		Taint(taint, "", "NoSchedule")
	claim := nodeview.Record{Taint: taint + "=pending:NoSchedule", Since: metav1.NewTime(ago(13 * time.Minute))}
	for name, c := range map[string]struct {
		node  *build.NodeWrapper
		rules []*build.RuleWrapper
		by    string
		says  string
	}{
		"the rule": {node: held(), by: report.ByRule, says: "added by this rule 13m ago"},
		"another program": {
			node: record(held(), "u1", nodeview.Record{Taint: claim.Taint, Since: claim.Since, Adopted: true}),
			by:   report.ByOther, says: "not added by a rule, managed by this rule for 13m"},
		"several rules": {node: record(held(), "u2", claim), rules: []*build.RuleWrapper{network(), other},
			by: report.ByUnknown, says: "is on the node, managed by this rule for 13m"},
		"another program, by value": {node: held().Untaint(taint).Taint(taint, "kubelet", "NoSchedule"),
			by: report.ByOther, says: "not added by a rule"},
		"admission, which has no time": {node: record(held(), "u1", nodeview.Record{Taint: claim.Taint}), by: report.ByRule,
			says: "when the node was created"},
		"another program, not adopted": {node: worker().Taint(taint, "", "NoSchedule"), by: report.ByForeign,
			says: "about to adopt it"},
		"another program, not managed": {
			node: worker().Taint(taint, "", "NoSchedule"), rules: []*build.RuleWrapper{network().Suspend(true)},
			by:   report.ByForeign,
			says: "does not manage it",
		},
		"another rule": {
			node: record(worker().Condition(cni, "True", ago(time.Minute)).Condition("Ready", "False", ago(time.Minute)).
				Taint(taint, "", "NoSchedule"), "u2", claim),
			rules: []*build.RuleWrapper{network(), other}, by: report.ByOtherRule, says: "added by rule other, which has the " +
				"same taint",
		},
		"the taint was removed": {node: record(worker(), "u1", claim),
			says: "was removed, but not by the operator; the rule is about to add it"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.rules == nil {
				c.rules = []*build.RuleWrapper{network()}
			}
			e := moment(c.node, c.rules...).Node(c.node.Obj())
			i := slices.IndexFunc(e.Rules, func(r report.RuleExplanation) bool { return r.Rule == "network" })
			if got := e.Rules[i].Taint; got == nil || got.By != c.by || !strings.Contains(got.Message, c.says) {
				t.Errorf("got %+v, want by %q, %q", got, c.by, c.says)
			}
		})
	}
}

func TestWhatHappensNext(t *testing.T) {
	since := held().Condition(cni, "True", ago(10*time.Second))
	for name, c := range map[string]struct {
		node  *build.NodeWrapper
		rule  *build.RuleWrapper
		after time.Duration
		says  string
	}{
		"nothing": {node: held(), rule: network()},
		"released, when it has settled": {node: since, rule: network().ReadySeconds(60), after: 50 * time.Second,
			says: "it is released, if its evidence still holds"},
		"released, when it is old enough": {
			node: since, rule: network().MinHoldSeconds(1500), after: 5 * time.Minute, says: "it is released, if its " +
				"evidence still holds",
		},
		"its timeout, and it stays held": {node: held(), rule: network().Timeout(1800, 0, v1alpha1.TimeoutActionKeep),
			after: 17 * time.Minute, says: "the node stays held"},
		"its first timeout, and it is released": {
			node: held(), rule: network().Timeout(1800, 1200, v1alpha1.TimeoutActionRelease), after: 7 * time.Minute,
			says: "for evidence to appear ends (20m): the node is released anyway",
		},
		"its other timeout, where all has appeared": {
			node: held().Condition(cni, "False", ago(time.Minute)), rule: network().Timeout(1800, 1200,
				v1alpha1.TimeoutActionRelease), after: 17 * time.Minute, says: "its timeout ends (30m)",
		},
		"held, when it is unready for long enough": {
			node: record(worker().Condition(cni, "False", ago(20*time.Second)), "u1",
				nodeview.Record{Released: metav1.NewTime(ago(15 * time.Minute))}),
			rule: network().UnreadySeconds(60), after: 40 * time.Second, says: "it is held, if its evidence is still missing",
		},
		"at the latest, where only the operator knows since when": {
			node: held(), rule: requires(build.MakeRule("network").UID("u1").Selector("pool", "a").Taint(taint, "pending",
				"NoSchedule").ReadySeconds(60),
				v1alpha1.Requirement{CEL: &v1alpha1.CELRequirement{Expression: "node.metadata.name != ''"}}),
			after: time.Minute, says: "at the latest",
		},
		"the end of the override": {
			node: held().Annotation(v1alpha1.OverrideAnnotation, "Hold;until=2026-01-02T03:05:05Z"),
			rule: network().Timeout(1800, 0, ""), after: time.Minute, says: "the rules decide again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := explained(c.node, c.rule).Next
			if c.after == 0 {
				if got != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			if got == nil || !got.At.Time.Equal(now.Add(c.after)) || !strings.Contains(got.What, c.says) {
				t.Errorf("got %+v, want %q at %s", got, c.says, now.Add(c.after))
			}
		})
	}
}

// TestNothingHappensWithoutAnOperator: also no timeout ends.
func TestNothingHappensWithoutAnOperator(t *testing.T) {
	w := moment(held(), network().Timeout(1800, 0, v1alpha1.TimeoutActionRelease))
	unreported(w)
	if e := w.Node(held().Obj()); e.Next != nil || !e.Rules[0].Unreported {
		t.Errorf("next is %+v, unreported: %t", e.Next, e.Rules[0].Unreported)
	}
}

func TestEvidenceThatCouldNotBeRead(t *testing.T) {
	rule := requires(network(), v1alpha1.Requirement{CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs"}})
	rule.Status.NodeEvaluations = []v1alpha1.NodeEvaluation{{NodeName: "worker-3", State: v1alpha1.NodeStateHeld,
		Reason:             state.ReasonEvidenceMissing,
		RequirementResults: []v1alpha1.RequirementEvaluationResult{{Name: "q", Message: "CSI driver ebs is not registered"}}}}
	e := explained(held().Condition(cni, "True", ago(time.Minute)), rule)
	r := e.Rules[0]
	if r.State != v1alpha1.NodeStateHeld || !strings.Contains(r.Message, "the operator reports Held, EvidenceMissing") {
		t.Errorf("what the operator reports is not said: %+v", r)
	}
	i := slices.IndexFunc(r.Evidence, func(e report.Evidence) bool { return e.Requirement == "q" })
	if i < 0 || r.Evidence[i].Satisfied != nil || !strings.Contains(r.Evidence[i].Message,
		"the file has no CSINodes; the operator reports: CSI driver ebs is not registered") {
		t.Errorf("evidence: %+v", r.Evidence)
	}
	if r.Taint.Change != "" || len(r.Deadlines) > 0 {
		t.Errorf("a verdict that cannot be known is predicted: %+v", r)
	}
	if !e.Held {
		t.Error("the node has the taint, and is not said to be held")
	}

	if r := explained(held().Annotation(v1alpha1.OverrideAnnotation, "Release"),
		rule).Rules[0]; r.Reason != state.ReasonOverrideRelease || r.Taint.Change != "Remove" {
		t.Errorf("an override needs no evidence: %+v", r)
	}
}

func TestWhatElseIsSaid(t *testing.T) {
	failed := network()
	failed.Status.FailedNodes = []v1alpha1.NodeFailure{{NodeName: "worker-3", Reason: "PatchFailed",
		Message: "denied by a webhook"}}
	elsewhere := build.MakeRule("gpus").UID("u3").Selector("pool", "gpus").Condition("x").Taint("example.com/gpu", "",
		"NoSchedule")
	n := held().Taint("example.com/gpu", "", "NoSchedule").Taint("node.kubernetes.io/unschedulable", "", "NoSchedule").
		Annotation(v1alpha1.OverrideAnnotation, "Relase")
	e := explained(n, failed, elsewhere)

	if r := e.Rules[0].Reported; r == nil || r.State != v1alpha1.NodeStateFailed || r.Message != "denied by a webhook" {
		t.Errorf("a failed write is not reported: %+v", r)
	}
	wantTaints := []report.OtherTaint{
		{Taint: "example.com/gpu:NoSchedule", By: "rule gpus has it, but does not select this node: the operator does not " +
			"remove it"},
		{Taint: "node.kubernetes.io/unschedulable:NoSchedule", By: "the node is cordoned"},
	}
	if diff := cmp.Diff(wantTaints, e.OtherTaints); diff != "" {
		t.Errorf("other taints: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]report.NotSelected{{Rule: "gpus", Why: `requires pool=gpus, but the label is "a"`}},
		e.NotSelectedBy); diff != "" {
		t.Errorf("not selected by: -want +got\n%s", diff)
	}
	if o := e.Override; o == nil || o.Action != "" || !strings.Contains(o.Problem, "must be Release or Hold") {
		t.Errorf("an override that cannot be read: %+v", o)
	}
}

// The limit counts all nodes in service, and the claims of this command line.
func TestLimit(t *testing.T) {
	released := nodeview.Record{Released: metav1.NewTime(ago(time.Minute))}
	claimed := nodeview.Record{Released: released.Released, Taint: taint + "=pending:NoSchedule",
		Since: metav1.NewTime(ago(time.Minute))}
	var nodes []*corev1.Node
	for i, n := range []*build.NodeWrapper{record(worker(), "u1", released), record(worker(), "u1", released),
		record(worker(), "u1", released),
		record(worker().Taint(taint, "pending", "NoSchedule"), "u1", claimed), record(worker().Cordoned(), "u1",
			released), held()} {
		n.Name = string(rune('a' + i))
		nodes = append(nodes, n.Condition(cni, "False", ago(time.Minute)).Obj())
	}
	w := moment(worker(), network().MaxUnavailable("50%"))
	w.Nodes = func() ([]*corev1.Node, error) { return nodes, nil }
	for i, want := range []v1alpha1.NodeState{v1alpha1.NodeStateHeld, v1alpha1.NodeStateExempt} { // half of four, less one
		if got := w.Node(nodes[i]).Rules[0]; got.State != want {
			t.Errorf("node %d: got %s, %s; want %s", i, got.State, got.Reason, want)
		}
	}

	nodes[1].Status.Conditions[1].LastTransitionTime = metav1.NewTime(ago(time.Hour))
	for i, want := range []v1alpha1.NodeState{v1alpha1.NodeStateExempt, v1alpha1.NodeStateHeld, v1alpha1.NodeStateExempt} {
		w := moment(worker(), network().MaxUnavailable("50%")) // it is asked about one node only
		w.Nodes = func() ([]*corev1.Node, error) { return nodes, nil }
		if got := w.Node(nodes[i]).Rules[0]; got.State != want {
			t.Errorf("node %d, where node 1 waits for longest: got %s, %s; want %s", i, got.State, got.Reason, want)
		}
	}

	w = moment(worker(), network().MaxUnavailable("0"))
	w.Nodes = func() ([]*corev1.Node, error) { return nil, errors.New("nodes is forbidden") }
	if e := w.Node(nodes[0]); len(e.Unread) != 1 || e.Rules[0].State != v1alpha1.NodeStateHeld {
		t.Errorf("nodes that cannot be listed: %+v", e)
	}
}

// Only the evidence of the nodes in question is read at first. Their turn depends on that of all.
func TestLimitByEvidenceOfAllNodes(t *testing.T) {
	driver := func(n *build.NodeWrapper, drivers ...storagev1.CSINodeDriver) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: storagev1.CSINodeSpec{Drivers: drivers}}
	}
	first, second := released(1), released(2)
	rule := build.MakeRule("network").UID("u1").Created(ago(time.Hour)).Selector("pool", "a").
		Taint(taint, "pending", corev1.TaintEffectNoSchedule).MaxUnavailable("1")
	w := moment(second, requires(rule, v1alpha1.Requirement{CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "x"}}))
	w.Nodes = func() ([]*corev1.Node, error) { return []*corev1.Node{first.Obj(), second.Obj()}, nil }
	w.Evidence = sources.Of([]runtime.Object{driver(second)}, w.Rules)
	w.All = func() Evidence {
		return sources.Of([]runtime.Object{driver(first, storagev1.CSINodeDriver{Name: "x"}), driver(second)}, w.Rules)
	}
	if got := w.Node(second.Obj()).Rules[0]; got.State != v1alpha1.NodeStateHeld {
		t.Errorf("the only node that waits: %s, %s: %+v", got.State, got.Reason, got.Evidence)
	}
}

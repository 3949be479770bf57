// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

const (
	cni   = "example.com/CNI"
	taint = "readiness.k8s.io/NetworkReady"
)

func network() *build.RuleWrapper {
	return build.MakeRule("network").UID("u1").Created(ago(time.Hour)).Selector("pool", "a").Condition(cni).
		Taint(taint, "pending", corev1.TaintEffectNoSchedule)
}

func worker() *build.NodeWrapper {
	return build.MakeNode("worker-3").UID("n").Created(ago(20*time.Minute)).Label("pool", "a").Condition("Ready", "True", ago(19*time.Minute))
}

func record(n *build.NodeWrapper, uid string, r gate.Record) *build.NodeWrapper {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return n.Annotation(v1alpha1.RecordAnnotationPrefix+uid, string(raw))
}

// held is a node with the taint and the record of rule network.
func held() *build.NodeWrapper {
	return record(worker().Taint(taint, "pending", corev1.TaintEffectNoSchedule), "u1",
		gate.Record{Rule: "network", Taint: taint + "=pending:NoSchedule", Since: metav1.NewTime(ago(13 * time.Minute))})
}

func input(n *build.NodeWrapper, rules ...*build.RuleWrapper) *Input {
	set := ruleset.NewSet()
	reported := map[types.UID]*v1alpha1.NodeReadinessRuleStatus{}
	for _, r := range rules {
		o := r.Obj()
		set = set.With(ruleset.Compile(o, nil, now))
		reported[o.UID] = &o.Status
	}
	return &Input{
		Node: n.Obj(), Rules: set, Reported: reported, Evidence: &readiness.Evidence{},
		Unread:  func(*ruleset.Requirement) string { return "" },
		Reserve: func(*ruleset.Rule, time.Time) bool { return true },
		Told:    func(*ruleset.Rule, corev1.Taint) string { return "" },
		Now:     now,
	}
}

func requires(r *build.RuleWrapper, q v1alpha1.Requirement) *build.RuleWrapper {
	q.Name = "q"
	r.Spec.Requirements = append(r.Spec.Requirements, q)
	return r
}

func TestSummary(t *testing.T) {
	dry := network().DryRun(true)
	limited := network().MaxUnavailable("0")
	for name, c := range map[string]struct {
		node  *build.NodeWrapper
		rules []*build.RuleWrapper
		edit  func(*Input)
		want  string
		held  bool
	}{
		"held": {
			node: held(), rules: []*build.RuleWrapper{network()}, held: true,
			want: "Node worker-3 is held by rule network for 13m: condition example.com/CNI has not been reported, must be True.",
		},
		"held by two": {
			node:  record(held(), "u2", gate.Record{Taint: taint + "=pending:NoSchedule", Since: metav1.NewTime(ago(time.Minute))}),
			rules: []*build.RuleWrapper{network(), build.MakeRule("other").UID("u2").Created(ago(time.Hour)).Selector("pool", "a").Condition("x").Taint(taint, "", "NoSchedule")},
			held:  true, want: "Node worker-3 is held by 2 rules: network, other.",
		},
		"about to be released": {
			node: held().Condition(cni, "True", ago(time.Second)), rules: []*build.RuleWrapper{network()}, held: true,
			want: "Node worker-3 is held by rule network for 13m and about to be released: all that it requires holds.",
		},
		"due to be released, and nobody to do it": {
			node: held().Condition(cni, "True", ago(time.Second)), rules: []*build.RuleWrapper{network()}, held: true,
			edit: func(in *Input) { in.Operator = &report.Operator{} },
			want: "Node worker-3 is held by rule network for 13m and due, as soon as an operator leads, to be released: all that it requires holds.",
		},
		"about to be held": {
			node: worker(), rules: []*build.RuleWrapper{network()},
			want: "Node worker-3 is not held yet; rule network is about to hold it: condition example.com/CNI has not been reported, must be True.",
		},
		"ready": {
			node: worker().Condition(cni, "True", ago(time.Minute)), rules: []*build.RuleWrapper{network()},
			want: "Node worker-3 is not held: rule network selects it: all that it requires holds.",
		},
		"no rule": {
			node: worker().Label("pool", "b"), rules: []*build.RuleWrapper{network()}, want: "Node worker-3 is not held: no rule selects it.",
		},
		"no rule, and still no place for pods": {
			node: worker().Label("pool", "b").Taint("node.kubernetes.io/not-ready", "", corev1.TaintEffectNoExecute), rules: []*build.RuleWrapper{network()},
			want: "Node worker-3 is not held: no rule selects it; other taints keep pods off: node.kubernetes.io/not-ready:NoExecute.",
		},
		"in dry-run": {
			node: worker(), rules: []*build.RuleWrapper{dry},
			want: "Node worker-3 is not held: rule network lets it be: the rule is in dry-run; enforced, it would hold the node: condition example.com/CNI has not been reported, must be True.",
		},
		"over budget": {
			node: worker().Created(ago(2 * time.Hour)), rules: []*build.RuleWrapper{limited}, edit: func(in *Input) { in.Reserve = func(*ruleset.Rule, time.Time) bool { return false } },
			want: "Node worker-3 is not held: rule network lets it be: not held, because as many nodes as maxUnavailable allows (0) are held already: condition example.com/CNI has not been reported, must be True.",
		},
		"held by hand": {
			node: held().Annotation(v1alpha1.OverrideAnnotation, "Hold;until=2026-01-02T05:04:05Z").Condition(cni, "True", ago(time.Minute)), rules: []*build.RuleWrapper{network()}, held: true,
			want: "Node worker-3 is held by hand for another 120m.",
		},
		"released by hand": {
			node: worker().Annotation(v1alpha1.OverrideAnnotation, "Release"), rules: []*build.RuleWrapper{network()},
			want: "Node worker-3 is released by hand: no rule holds it, whatever its evidence.",
		},
		"one of several does": {
			node: worker(), rules: []*build.RuleWrapper{network().AnyOf().Condition("example.com/Other")},
			want: "Node worker-3 is not held yet; rule network is about to hold it: none of these holds: condition example.com/CNI has not been reported, must be True; condition example.com/Other has not been reported, must be True.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(c.node, c.rules...)
			if c.edit != nil {
				c.edit(in)
			}
			got := Node(in)
			if diff := cmp.Diff(c.want, got.Summary); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if got.Held != c.held {
				t.Errorf("held: %t", got.Held)
			}
		})
	}
}

func TestAnEvictionGuardIsExplained(t *testing.T) {
	rule := build.MakeRule("guard").UID("u1").Created(ago(time.Hour)).Selector("pool", "a").Condition(cni).EvictionGuard(1800)
	n := record(worker().Condition(cni, "False", ago(10*time.Minute)), "u1", gate.Record{GuardedSince: metav1.NewTime(ago(10 * time.Minute))})
	e := Node(input(n, rule))
	if want := "Node worker-3 bears no rule's taint, but rule guard, which has none, does not hold there: condition example.com/CNI is False, must be True."; e.Summary != want {
		t.Errorf("got %q", e.Summary)
	}
	if got := e.Rules[0].Guard; got != "its pods are guarded from eviction, for 10m now" {
		t.Errorf("got %q", got)
	}
	if e.Next == nil || !e.Next.At.Time.Equal(now.Add(20*time.Minute)) || !strings.Contains(e.Next.What, "its eviction guard ends") {
		t.Errorf("got %+v", e.Next)
	}
	ended := record(worker().Condition(cni, "False", ago(40*time.Minute)), "u1", gate.Record{GuardedSince: metav1.NewTime(ago(20 * time.Minute)), GuardEnded: metav1.NewTime(ago(time.Minute))})
	if got := Node(input(ended, build.WrapRule(rule.Obj()).EvictionGuard(600))).Rules[0].Guard; !strings.Contains(got, "not guarded from eviction any more") {
		t.Errorf("got %q", got)
	}
}

func TestWhoPutTheTaintThere(t *testing.T) {
	other := build.MakeRule("other").UID("u2").Created(ago(time.Hour)).Selector("pool", "a").Condition("Ready").Taint(taint, "", "NoSchedule")
	claim := gate.Record{Taint: taint + "=pending:NoSchedule", Since: metav1.NewTime(ago(13 * time.Minute))}
	for name, c := range map[string]struct {
		node  *build.NodeWrapper
		rules []*build.RuleWrapper
		told  string
		by    string
		says  string
	}{
		"the rule, as the events tell":          {node: held(), told: report.ByRule, by: report.ByRule, says: "is on: put there by this rule 13m ago"},
		"somebody else, as the events tell":     {node: held(), told: report.ByOther, by: report.ByOther, says: "is on: put there by somebody else, and this rule's since 13m ago"},
		"nobody remembers":                      {node: held(), by: report.ByUnknown, says: "is on, and this rule's since 13m ago"},
		"somebody else, as its value tells":     {node: held().Untaint(taint).Taint(taint, "kubelet", "NoSchedule"), by: report.ByOther, says: "put there by somebody else"},
		"admission, which has no clock":         {node: record(held(), "u1", gate.Record{Taint: claim.Taint}), by: report.ByRule, says: "in the request that created the node"},
		"somebody else, and not taken over yet": {node: worker().Taint(taint, "", "NoSchedule"), by: report.ByStranger, says: "about to take it over"},
		"somebody else, and none of the rule's business": {
			node: worker().Taint(taint, "", "NoSchedule"), rules: []*build.RuleWrapper{network().Suspend(true)}, by: report.ByStranger, says: "does not touch it",
		},
		"another rule": {
			node:  record(worker().Condition(cni, "True", ago(time.Minute)).Condition("Ready", "False", ago(time.Minute)).Taint(taint, "", "NoSchedule"), "u2", claim),
			rules: []*build.RuleWrapper{network(), other}, by: report.ByOtherRule, says: "put there by rule other, which has the same taint",
		},
		"nobody: it was taken off": {node: record(worker(), "u1", claim), says: "somebody has taken it off; the operator is about to put it on"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.rules == nil {
				c.rules = []*build.RuleWrapper{network()}
			}
			in := input(c.node, c.rules...)
			in.Told = func(*ruleset.Rule, corev1.Taint) string { return c.told }
			got := find(Node(in), "network").Taint
			if got == nil || got.By != c.by || !strings.Contains(got.Message, c.says) {
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
		"nothing":                       {node: held(), rule: network()},
		"released, when it has settled": {node: since, rule: network().ReadySeconds(60), after: 50 * time.Second, says: "it is released, if its evidence still holds"},
		"released, when it is old enough": {
			node: since, rule: network().MinimumHoldSeconds(1500), after: 5 * time.Minute, says: "it is released, if its evidence still holds",
		},
		"its timeout, and it stays held": {node: held(), rule: network().Timeout(1800, 0, v1alpha1.TimeoutActionKeep), after: 17 * time.Minute, says: "the node stays held"},
		"its first timeout, and it is released": {
			node: held(), rule: network().Timeout(1800, 1200, v1alpha1.TimeoutActionRelease), after: 7 * time.Minute, says: "for evidence to appear ends (20m): the node is released all the same",
		},
		"its other timeout, where all has appeared": {
			node: held().Condition(cni, "False", ago(time.Minute)), rule: network().Timeout(1800, 1200, v1alpha1.TimeoutActionRelease), after: 17 * time.Minute, says: "its timeout ends (30m)",
		},
		"held, when it is unready for long enough": {
			node: record(worker().Condition(cni, "False", ago(20*time.Second)), "u1", gate.Record{Released: metav1.NewTime(ago(15 * time.Minute))}),
			rule: network().UnreadySeconds(60), after: 40 * time.Second, says: "it is held, if its evidence is still missing",
		},
		"at the latest, where only the operator knows since when": {
			node: held(), rule: requires(build.MakeRule("network").UID("u1").Selector("pool", "a").Taint(taint, "pending", "NoSchedule").ReadySeconds(60),
				v1alpha1.Requirement{CEL: &v1alpha1.CELRequirement{Expression: "node.metadata.name != ''"}}),
			after: time.Minute, says: "at the latest",
		},
		"the end of the override": {
			node: held().Annotation(v1alpha1.OverrideAnnotation, "Hold;until=2026-01-02T03:05:05Z"), rule: network().Timeout(1800, 0, ""), after: time.Minute, says: "the rules decide again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Node(input(c.node, c.rule)).Next
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

func TestEvidenceThatCouldNotBeRead(t *testing.T) {
	rule := requires(network(), v1alpha1.Requirement{CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs"}})
	rule.Status.NodeEvaluations = []v1alpha1.NodeEvaluation{{NodeName: "worker-3", State: v1alpha1.NodeStateHeld, Reason: gate.ReasonEvidenceMissing,
		RequirementResults: []v1alpha1.RequirementEvaluationResult{{Name: "q", Message: "csi driver ebs is not registered"}}}}
	in := input(held().Condition(cni, "True", ago(time.Minute)), rule)
	in.Unread = func(*ruleset.Requirement) string { return "csinodes is forbidden" }
	e := Node(in)
	r := e.Rules[0]
	if r.State != v1alpha1.NodeStateHeld || !strings.Contains(r.Message, "the operator reports Held, EvidenceMissing") {
		t.Errorf("what the operator reports is not said: %+v", r)
	}
	i := slices.IndexFunc(r.Evidence, func(e report.Evidence) bool { return e.Requirement == "q" })
	if i < 0 || r.Evidence[i].Satisfied != nil || !strings.Contains(r.Evidence[i].Message, "csinodes is forbidden; the operator reports: csi driver ebs is not registered") {
		t.Errorf("evidence: %+v", r.Evidence)
	}
	if r.Taint.Change != "" || len(r.Deadlines) > 0 {
		t.Errorf("what nobody can know is foretold: %+v", r)
	}
	if !e.Held {
		t.Error("the node bears the taint, and is not said to be held")
	}

	in.Node = held().Annotation(v1alpha1.OverrideAnnotation, "Release").Obj()
	if r := Node(in).Rules[0]; r.Reason != gate.ReasonOverrideRelease || r.Taint.Change != "Remove" {
		t.Errorf("an override needs no evidence: %+v", r)
	}
}

func TestWhatElseIsSaid(t *testing.T) {
	failed := network()
	failed.Status.FailedNodes = []v1alpha1.NodeFailure{{NodeName: "worker-3", Reason: "PatchFailed", Message: "denied by a webhook"}}
	elsewhere := build.MakeRule("gpus").UID("u3").Selector("pool", "gpus").Condition("x").Taint("example.com/gpu", "", "NoSchedule")
	n := held().Taint("example.com/gpu", "", "NoSchedule").Taint("node.kubernetes.io/unschedulable", "", "NoSchedule").
		Annotation(v1alpha1.OverrideAnnotation, "Relase")
	e := Node(input(n, failed, elsewhere))

	if r := e.Rules[0].Reported; r == nil || r.State != v1alpha1.NodeStateFailed || r.Message != "denied by a webhook" {
		t.Errorf("a failed write is not reported: %+v", r)
	}
	wantTaints := []report.OtherTaint{
		{Taint: "example.com/gpu:NoSchedule", By: "rule gpus has it, but does not select this node: nobody takes it off"},
		{Taint: "node.kubernetes.io/unschedulable:NoSchedule", By: "the node is cordoned"},
	}
	if diff := cmp.Diff(wantTaints, e.OtherTaints); diff != "" {
		t.Errorf("other taints: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]report.NotSelected{{Rule: "gpus", Why: `wants pool=gpus, and the label is "a"`}}, e.NotSelectedBy); diff != "" {
		t.Errorf("not selected by: -want +got\n%s", diff)
	}
	if o := e.Override; o == nil || o.Action != "" || !strings.Contains(o.Problem, "neither Release nor Hold") {
		t.Errorf("an override that cannot be read: %+v", o)
	}
}

func TestTold(t *testing.T) {
	event := func(reason string, age time.Duration, rule string) corev1.Event {
		return corev1.Event{Reason: reason, EventTime: metav1.NewMicroTime(ago(age)), Related: &corev1.ObjectReference{Name: rule},
			Message: reason + " taint " + taint + "=pending:NoSchedule for rule " + rule}
	}
	rule := ruleset.Compile(network().Obj(), nil, now)
	on := corev1.Taint{Key: taint, Value: "pending", Effect: corev1.TaintEffectNoSchedule}
	for name, c := range map[string]struct {
		events []corev1.Event
		want   string
	}{
		"nothing":                     {},
		"added":                       {events: []corev1.Event{event("TaintAdded", time.Minute, "network")}, want: report.ByRule},
		"adopted, the newest":         {events: []corev1.Event{event("TaintAdopted", time.Minute, "network"), event("TaintAdded", time.Hour, "network")}, want: report.ByOther},
		"removed since":               {events: []corev1.Event{event("TaintAdded", time.Hour, "network"), event("TaintRemoved", time.Minute, "network")}},
		"by another rule":             {events: []corev1.Event{event("TaintAdded", time.Hour, "other")}},
		"an event of somebody else's": {events: []corev1.Event{{Reason: "TaintAdded", Message: taint}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Told(c.events)(rule, on); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRoom(t *testing.T) {
	rule := ruleset.Compile(network().MaxUnavailable("50%").Obj(), nil, now)
	released := gate.Record{Released: metav1.NewTime(ago(time.Minute))}
	claimed := gate.Record{Released: released.Released, Taint: taint + "=pending:NoSchedule", Since: metav1.NewTime(ago(time.Minute))}
	var nodes []*corev1.Node
	for _, n := range []*build.NodeWrapper{record(worker(), "u1", released), record(worker(), "u1", claimed), record(worker(), "u1", released),
		record(worker().Cordoned(), "u1", released), held(), worker().Label("pool", "b")} {
		nodes = append(nodes, n.Obj())
	}
	if got := Room(rule, nodes, now); got != 1 { // half of three, rounded up, less one
		t.Errorf("got %d", got)
	}
}

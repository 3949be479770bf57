// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

func style() Style { return Style{Now: now} }

// golden compares with a file of testdata; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (UPDATE_GOLDEN=1 writes it): -want +got\n%s", file, diff)
	}
}

func heldNode() *NodeExplanation {
	timeout := Deadline{At: metav1.NewTime(now.Add(17 * time.Minute)), Rule: "network",
		What: "its timeout ends (30m): the node is released anyway"}
	return &NodeExplanation{
		Node: "worker-3", At: metav1.NewTime(now), Held: true, HeldBy: []string{"network"}, Ready: "True", Next: &timeout,
		Summary: "Node worker-3 is held by rule network for 13m: condition example.com/CNI is False, must be True.",
		Rules: []RuleExplanation{
			{
				Rule: "network", Mode: "Enforced", State: v1alpha1.NodeStateHeld, Reason: "EvidenceMissing", Policy: "allOf",
				Message: "condition example.com/CNI is False, must be True",
				Taint: &Taint{Taint: "readiness.k8s.io/NetworkReady=pending:NoSchedule", Present: true, By: ByRule,
					Since:   ago(13 * time.Minute),
					Message: "is on: put there by this rule 13m ago"},
				Evidence: []Evidence{
					{Condition: "example.com/CNI", Satisfied: new(false),
						Message: "condition example.com/CNI is False, must be True", Cause: "Reported",
						Since: ago(13 * time.Minute), Heartbeat: ago(12 * time.Second)},
					{Requirement: "warm-up", Satisfied: new(true), Message: "1 of 1 pods ready (namespace kube-system, " +
						"selector app=init)", Cause: "Reported", Since: ago(12 * time.Minute)},
					{Requirement: "ebs", Message: "requirement ebs could not be read: csinodes is forbidden", Cause: "Unread"},
				},
				Deadlines: []Deadline{timeout},
				Reported:  &Reported{State: v1alpha1.NodeStateHeld, Reason: "EvidenceMissing", At: *ago(13 * time.Minute)},
			},
			{
				Rule: "storage", Mode: "Enforced", State: v1alpha1.NodeStateReady, Reason: "EvidenceHolds", Policy: "allOf",
				Message:    "all its evidence holds",
				Taint:      &Taint{Taint: "readiness.k8s.io/Storage=:NoSchedule", Message: "is not on the node"},
				ReleasedAt: ago(20 * time.Minute),
				Evidence: []Evidence{{Condition: "example.com/CSI", Satisfied: new(true),
					Message: "condition example.com/CSI is True", Cause: "Reported",
					Since: ago(20 * time.Minute), Heartbeat: ago(time.Minute),
					ChangesAt: &metav1.Time{Time: now.Add(14 * time.Minute)}}},
			},
		},
		OtherTaints:   []OtherTaint{{Taint: "node.kubernetes.io/unschedulable:NoSchedule", By: "the node is cordoned"}},
		Unschedulable: true,
		NotSelectedBy: []NotSelected{{Rule: "gpus", Why: `wants pool=gpus, and the label is "workers"`}},
		Operator:      &Operator{Leader: "manager-0", RenewedAt: *ago(2 * time.Second), Leads: true},
		Unread:        []string{"listing events: you may not"},
	}
}

func TestExplanation(t *testing.T) {
	golden(t, "held", heldNode().Text(style()))

	wide := style()
	wide.Wide = true
	golden(t, "held-wide", heldNode().Text(wide))

	narrow := style()
	narrow.Width, narrow.Color = 60, true
	golden(t, "held-terminal", heldNode().Text(narrow))

	golden(t, "unmarked", (&NodeExplanation{
		Node: "n", At: metav1.NewTime(now), Held: true, HeldBy: []string{"network"},
		Summary: "Node n is held by rule network.",
		Rules: []RuleExplanation{{Rule: "network", Mode: "Enforced", State: v1alpha1.NodeStateHeld, Reason: "EvidenceMissing",
			Policy: "allOf", Message: "condition example.com/CNI is False, must be True", Published: &Published{
				Type: "example.com/Verdict", Status: "Unknown", Reason: "NodegateRuleOverBudget",
				Message: "rule network: as many nodes as maxUnavailable allows (1) are already False"}}},
		Operator: &Operator{Leader: "manager-0", RenewedAt: *ago(2 * time.Second), Leads: true},
	}).Text(style()))

	golden(t, "no-rule", (&NodeExplanation{
		Node: "n", At: metav1.NewTime(now), Summary: "Node n is not held: no rule selects " +
			"it.", Ready: "Unknown", Terminating: true,
		NotSelectedBy: []NotSelected{{Rule: "gpus", Why: "wants pool=gpus, and the label is not there"}},
		Operator:      &Operator{RenewedAt: *ago(5 * time.Minute)},
	}).Text(style()))

	golden(t, "released-by-hand", (&NodeExplanation{
		Node: "n", At: metav1.NewTime(now), Summary: "Node n is released by hand: no rule holds it, regardless of its " +
			"evidence.", Ready: "True",
		Override: &Override{Value: "Release", Action: "Release"},
		Rules: []RuleExplanation{{Rule: "network", Mode: "Suspended", State: v1alpha1.NodeStateExempt,
			Reason: "OverrideRelease", Policy: "anyOf",
			Message: "a user has released the node by the override annotation, regardless of its evidence: x",
			Reported: &Reported{State: v1alpha1.NodeStateFailed, Reason: "PatchFailed", Message: "denied",
				At: *ago(time.Minute)}}},
	}).Text(style()))

	golden(t, "useless-override", (&NodeExplanation{
		Node: "n", At: metav1.NewTime(now), Summary: "Node n is not held: no rule selects it.", Ready: "True",
		Override: &Override{Value: "Relase", Problem: "it cannot be read, and is ignored"},
	}).Text(style()))
}

// A few held nodes among many others come first.
func TestNodesThatAreHeldComeFirst(t *testing.T) {
	var nodes []*NodeExplanation
	under := func(n int, rules ...RuleExplanation) {
		for range n {
			nodes = append(nodes, &NodeExplanation{Node: "n", CreatedAt: *ago(time.Hour), Rules: rules})
		}
	}
	under(5)
	under(4, RuleExplanation{Rule: "r", Mode: "Enforced", State: v1alpha1.NodeStateReady})
	under(3, RuleExplanation{Rule: "r", Mode: "Enforced", State: v1alpha1.NodeStateExempt})
	under(1, RuleExplanation{Rule: "a", Mode: "Enforced", State: v1alpha1.NodeStateHeld, Taint: &Taint{Present: true}})
	under(2, RuleExplanation{Rule: "b", Mode: "Enforced", State: v1alpha1.NodeStateHeld, Taint: &Taint{Present: true}})
	var got []string
	for line := range strings.SplitSeq(NewNodes(nodes).Text(style()), "\n") {
		if strings.Contains(line, " node") {
			got = append(got, line)
		}
	}
	want := []string{"Rule b: Held (2 nodes)", "Rule a: Held (1 node)", "Rule r: Exempt (3 nodes)",
		"Rule r: Ready (4 nodes)", "No rule selects it (5 nodes)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func simulation() *Simulation {
	sim := &Simulation{Nodes: 30, Unread: []string{"rule network, requirement ebs, counts as missing: forbidden"}}
	r := RuleSimulation{Rule: "network", Change: ChangeEdited, Mode: "Enforced",
		Taint: "readiness.k8s.io/NetworkReady=:NoSchedule",
		Totals: Totals{TaintsAdded: 26, TaintsAddedInService: 2, TaintsRemoved: 1, OverBudget: 1, NeverReported: 3,
			PodsEvicted: new(70),
			NodeCounts:  v1alpha1.NodeCounts{Matched: 30, Ready: 3, Held: 26, Exempt: 1}}}
	for i := range 26 {
		r.Nodes = append(r.Nodes, NodeSimulation{Node: fmt.Sprintf("worker-%d", i), Taint: TaintAdded,
			State:  v1alpha1.NodeStateHeld,
			Reason: "EvidenceMissing", Message: "condition example.com/CNI has not been reported, must be True"})
	}
	r.Nodes = append(r.Nodes, NodeSimulation{Node: "worker-26", Taint: TaintRemoved, State: v1alpha1.NodeStateReady,
		Reason: "EvidenceHolds", Message: "all its evidence holds"})
	sim.Rules = append(sim.Rules, r,
		RuleSimulation{Rule: "broken", Mode: "Frozen", Problems: []string{"spec.requirements: rules require each other in " +
			"a cycle"}},
		RuleSimulation{Rule: "quiet", Change: ChangeCreated, Mode: "DryRun"},
		RuleSimulation{Rule: "loud", Change: ChangeCreated, Mode: "Enforced", Hypothetical: true})
	return sim
}

func TestSimulation(t *testing.T) {
	golden(t, "simulation", simulation().Text(style()))

	wide := style()
	wide.Wide = true
	if got := simulation().Text(wide); !strings.Contains(got, "worker-25") || strings.Contains(got, "not listed") {
		t.Errorf("wide does not list all:\n%s", got)
	}
}

func statuses() *RuleStatusList {
	return &RuleStatusList{Items: []RuleStatus{
		{Rule: "network", State: "InForce", Nodes: &v1alpha1.NodeCounts{Matched: 1000, Ready: 996, Held: 1, Exempt: 3},
			BudgetExhausted: true,
			Mode:            "continuous", Taint: "readiness.k8s.io/NetworkReady=:NoSchedule", HeldNodes: []string{"worker-3"}},
		{Rule: "gpus", State: "Suspended", Nodes: &v1alpha1.NodeCounts{Matched: 4, Held: 4}, Paused: ago(time.Hour)},
		{Rule: "probed", State: "InForce", Nodes: &v1alpha1.NodeCounts{Matched: 2, Ready: 2},
			Message: "spec.probes: no probe runs"},
		{Rule: "new", State: "Unreported", Message: "the operator has not reported on it yet: does it run?"},
	}}
}

func TestStatus(t *testing.T) {
	golden(t, "status", statuses().Text(style()))
	wide := style()
	wide.Wide = true
	golden(t, "status-wide", statuses().Text(wide))
	terminal := style()
	terminal.Width, terminal.Color = 100, true
	golden(t, "status-terminal", statuses().Text(terminal))
	golden(t, "status-none", (&RuleStatusList{Operator: &Operator{RenewedAt: *ago(time.Hour)}}).Text(style()))
}

// TestStatusOfARuleThatNothingServes: such a rule is in force, and a field of it has no effect.
func TestStatusOfARuleThatNothingServes(t *testing.T) {
	rule := build.MakeRule("probed").Obj()
	rule.Generation = 2
	set := func(condition string, status metav1.ConditionStatus, reason string, generation int64) {
		meta.SetStatusCondition(&rule.Status.Conditions, metav1.Condition{Type: condition, Status: status, Reason: reason,
			Message: "says " + reason, ObservedGeneration: generation})
	}
	state := func(want, message string) {
		t.Helper()
		got := Statuses([]v1alpha1.NodeReadinessRule{*rule}).Items[0]
		if got.State != want || got.Message != message {
			t.Errorf("%s: %q, want %s: %q", got.State, got.Message, want, message)
		}
	}
	set(v1alpha1.ConditionReady, metav1.ConditionTrue, "InForce", 2)
	set(v1alpha1.ConditionServed, metav1.ConditionFalse, "NotRunning", 1)
	state("InForce", "") // of an earlier version of the rule
	set(v1alpha1.ConditionServed, metav1.ConditionFalse, "NotRunning", 2)
	state("InForce", "says NotRunning")
	set(v1alpha1.ConditionReady, metav1.ConditionFalse, "Invalid", 2)
	state("Invalid", "says Invalid")
}

func TestStatusOfARuleThatIsDeleted(t *testing.T) {
	for finalizer, want := range map[string]string{
		v1alpha1.Served().Finalizer: "the operator has removed its taints",
		"example.com/keep":          "the owners of these finalizers remove them: example.com/keep",
	} {
		rule := build.MakeRule("a").Obj()
		rule.DeletionTimestamp, rule.Finalizers = new(metav1.Now()), []string{finalizer}
		if got := Statuses([]v1alpha1.NodeReadinessRule{*rule}).Items[0]; got.State != "Deleting" ||
			!strings.HasSuffix(got.Message, want) {
			t.Errorf("%s: %s: %q; want %q", finalizer, got.State, got.Message, want)
		}
	}
}

func TestBarShowsWhateverThereIs(t *testing.T) {
	for _, n := range []v1alpha1.NodeCounts{
		{Matched: 1000, Ready: 998, Held: 1, Exempt: 1}, {Matched: 3, Held: 1, Exempt: 2}, {Matched: 1,
			Ready: 1}, {Matched: 2, Failed: 1, Pending: 1},
		{Matched: 1000, Ready: 1, Held: 999}, {Matched: 1000, Ready: 1, Held: 499, Exempt: 500}, {},
	} {
		got := bar(&n, 20)
		if utf8.RuneCountInString(got) != 20 {
			t.Errorf("%+v: %q is not %d wide", n, got, 20)
		}
		for r, there := range map[string]bool{"█": n.Ready > 0, "▒": n.Exempt+n.Pending > 0, "░": n.Held+n.Failed > 0} {
			if strings.Contains(got, r) != there {
				t.Errorf("%+v: %q: has %s: %t", n, got, r, !there)
			}
		}
	}
}

func TestFindings(t *testing.T) {
	golden(t, "findings", (&LintReport{Rules: 2, Findings: []Finding{
		{Source: "a.yaml", Rule: "network", Severity: SeverityError, Code: "Refused", Field: "spec.taint.key",
			Message: "belongs to Kubernetes"},
		{Source: "a.yaml", Rule: "network", Severity: SeverityWarning, Code: "NoMaxUnavailable", Field: "spec.maxUnavailable",
			Message: "evicts"},
	}}).Text(style()))
	golden(t, "findings-none", (&LintReport{Rules: 2}).Text(style()))
}

func TestNoLineIsWiderThanTheTerminal(t *testing.T) {
	s := style()
	s.Width = 72
	for name, text := range map[string]string{
		"explanation": heldNode().Text(s), "simulation": simulation().Text(s), "status": statuses().Text(s),
	} {
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > s.Width {
				t.Errorf("%s: a line of %d: %s", name, n, line)
			}
		}
	}
}

func TestStyleOfAPipeIsPlain(t *testing.T) {
	s := StyleOf(&bytes.Buffer{}, func(string) string { return "" })
	if s.Color || s.Width != 0 {
		t.Errorf("got %+v", s)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	if s := StyleOf(f, func(string) string { return "" }); s.Color || s.Width != 0 {
		t.Errorf("a file: got %+v", s)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/test/build"
)

func numbered(i int) *build.NodeWrapper {
	return build.MakeNode(fmt.Sprintf("worker-%d", i)).UID(fmt.Sprintf("n%d", i)).Created(ago(20*time.Minute)).
		Label("pool", "a")
}

func heldBefore(i int) *build.NodeWrapper { return holding(numbered(i), 10*time.Minute) }

func released(i int) *build.NodeWrapper {
	return record(numbered(i), "u1", nodeview.Record{Released: metav1.NewTime(ago(15 * time.Minute))})
}

func simulation(rules, present []*build.RuleWrapper, nodes ...*build.NodeWrapper) *Simulation {
	in := &Simulation{Now: now, Read: func(set *ruleset.Set) *sources.Snapshot { return sources.Of(nil, set) }}
	for _, r := range rules {
		in.Rules = append(in.Rules, *r.Obj())
	}
	for _, r := range present {
		in.Present = append(in.Present, *r.Obj())
	}
	for _, n := range nodes {
		in.Nodes = append(in.Nodes, n.Obj())
	}
	return in
}

func only(r *build.RuleWrapper) []*build.RuleWrapper { return []*build.RuleWrapper{r} }

// fates are what becomes of the taint on each node, with the reason.
func fates(r *report.RuleSimulation) map[string]string {
	out := map[string]string{}
	for _, n := range r.Nodes {
		out[n.Node] = n.Taint + " " + n.Reason
	}
	return out
}

func TestSimulation(t *testing.T) {
	bad := func(n *build.NodeWrapper, since time.Duration) *build.NodeWrapper {
		return n.Condition(cni, "False", ago(since))
	}
	good := func(n *build.NodeWrapper) *build.NodeWrapper { return n.Condition(cni, "True", ago(time.Hour)) }
	full := func(n *build.NodeWrapper) *build.NodeWrapper {
		const key = "example.com/filler"
		size := len(key)
		for k, v := range n.Obj().Annotations {
			size += len(k) + len(v)
		}
		return n.Annotation(key, strings.Repeat("x", 256<<10-size))
	}
	deleted := network().MaxUnavailable("1")
	deleted.StatusInForce(ago(time.Hour), ruleset.Compile(deleted.Obj(), nil, now).SelectorHash)
	deleted.Status.Limit = &v1alpha1.LimitStatus{Deleted: 1, LastDeletionTime: new(metav1.NewTime(ago(time.Minute)))}
	for name, c := range map[string]struct {
		in     *Simulation
		change string
		mode   string
		want   map[string]string
		totals report.Totals
	}{
		"a new rule takes in what is not ready": {
			in: simulation(only(filed()), nil, good(numbered(1)), bad(numbered(2), time.Minute), numbered(3),
				numbered(4).Label("pool", "b")),
			change: report.ChangeCreated, mode: "Enforced",
			want: map[string]string{"worker-1": "None EvidenceHolds", "worker-2": "Added EvidenceMissing",
				"worker-3": "Added EvidenceMissing"},
			totals: report.Totals{TaintsAdded: 2, TaintsAddedInService: 2, NeverReported: 1,
				NodeCounts: v1alpha1.NodeCounts{Matched: 3, Ready: 1, Held: 2}},
		},
		"the limit takes those first that are longest not ready": {
			in: simulation(only(filed().MaxUnavailable("1")), nil,
				bad(numbered(1), time.Minute), bad(numbered(2), time.Hour), bad(numbered(3), 30*time.Minute)),
			change: report.ChangeCreated, mode: "Enforced",
			want: map[string]string{"worker-1": "None OverBudget", "worker-2": "Added EvidenceMissing",
				"worker-3": "None OverBudget"},
			totals: report.Totals{TaintsAdded: 1, TaintsAddedInService: 1, OverBudget: 2,
				NodeCounts: v1alpha1.NodeCounts{Matched: 3, Held: 1, Exempt: 2}},
		},
		"the limit of each rack takes those first that are longest not ready": {
			in: simulation(only(filed().LimitPer("rack", "1")), nil,
				bad(numbered(1).Label("rack", "a"), time.Minute), bad(numbered(2).Label("rack", "a"), time.Hour),
				bad(numbered(3).Label("rack", "b"), time.Minute)),
			change: report.ChangeCreated, mode: "Enforced",
			want: map[string]string{"worker-1": "None OverBudget", "worker-2": "Added EvidenceMissing",
				"worker-3": "Added EvidenceMissing"},
			totals: report.Totals{TaintsAdded: 2, TaintsAddedInService: 2, OverBudget: 1,
				NodeCounts: v1alpha1.NodeCounts{Matched: 3, Held: 2, Exempt: 1}},
		},
		"the limit has the room of nodes that are released": {
			in: simulation(only(filed().MaxUnavailable("1")), only(network().MaxUnavailable("1")),
				bad(released(1), time.Minute),
				good(record(heldBefore(2), "u1", nodeview.Record{Taint: taint + "=pending:NoSchedule",
					Since: metav1.NewTime(ago(10 * time.Minute)), Released: metav1.NewTime(ago(15 * time.Minute))}))),
			change: report.ChangeUnchanged, mode: "Enforced",
			want: map[string]string{"worker-1": "Added EvidenceMissing", "worker-2": "Removed EvidenceHolds"},
			totals: report.Totals{TaintsAdded: 1, TaintsAddedInService: 1, TaintsRemoved: 1,
				NodeCounts: v1alpha1.NodeCounts{Matched: 2, Ready: 1, Held: 1}},
		},
		"the limit does not count a new node whose annotations have no room": {
			in: simulation(only(filed().MaxUnavailable("1")), nil,
				bad(numbered(1), time.Minute), full(bad(numbered(2), time.Hour))),
			change: report.ChangeCreated, mode: "Enforced",
			want: map[string]string{"worker-1": "Added EvidenceMissing", "worker-2": "None AnnotationsFull"},
			totals: report.Totals{TaintsAdded: 1, TaintsAddedInService: 1,
				NodeCounts: v1alpha1.NodeCounts{Matched: 2, Held: 1, Exempt: 1}},
		},
		"nor a released one, which comes first": {
			in: simulation(only(filed().MaxUnavailable("1")), only(network().MaxUnavailable("1")),
				full(bad(released(1), time.Hour)), bad(released(2), time.Minute)),
			change: report.ChangeUnchanged, mode: "Enforced",
			want: map[string]string{"worker-1": "None AnnotationsFull", "worker-2": "Added EvidenceMissing"},
			totals: report.Totals{TaintsAdded: 1, TaintsAddedInService: 1,
				NodeCounts: v1alpha1.NodeCounts{Matched: 2, Held: 1, Exempt: 1}},
		},
		"a deleted node keeps its place": {
			in:     simulation(only(filed().MaxUnavailable("1")), only(deleted), bad(released(1), time.Minute)),
			change: report.ChangeUnchanged, mode: "Enforced",
			want:   map[string]string{"worker-1": "None OverBudget"},
			totals: report.Totals{OverBudget: 1, NodeCounts: v1alpha1.NodeCounts{Matched: 1, Exempt: 1}},
		},
		"an unchanged rule changes nothing": {
			in: simulation(only(filed()), only(network()), heldBefore(1)), change: report.ChangeUnchanged, mode: "Enforced",
			want:   map[string]string{"worker-1": "Stays EvidenceMissing"},
			totals: report.Totals{NeverReported: 1, NodeCounts: v1alpha1.NodeCounts{Matched: 1, Held: 1}},
		},
		"a rule with another key puts that on": {
			in:     simulation(only(filed().Taint("readiness.k8s.io/Other", "", "NoSchedule")), only(network()), heldBefore(1)),
			change: report.ChangeEdited, mode: "Enforced", want: map[string]string{"worker-1": "Added EvidenceMissing"},
			totals: report.Totals{TaintsAdded: 1, NeverReported: 1, NodeCounts: v1alpha1.NodeCounts{Matched: 1, Held: 1}},
		},
		"a rule for other nodes lets go of these": {
			in: simulation(only(filed().Selector("pool", "b")), only(network()), heldBefore(1), numbered(2).Label("pool",
				"b")),
			change: report.ChangeEdited, mode: "Enforced", want: map[string]string{"worker-1": "Removed ",
				"worker-2": "Added EvidenceMissing"},
			totals: report.Totals{TaintsAdded: 1, TaintsAddedInService: 1, TaintsRemoved: 1, NeverReported: 1,
				NodeCounts: v1alpha1.NodeCounts{Matched: 1, Held: 1}},
		},
		"a rule that goes into dry-run opens all": {
			in: simulation(only(filed().DryRun(true)), only(network()),
				heldBefore(1)), change: report.ChangeEdited, mode: "DryRun",
			want:   map[string]string{"worker-1": "Removed DryRun"},
			totals: report.Totals{TaintsRemoved: 1, NodeCounts: v1alpha1.NodeCounts{Matched: 1, Exempt: 1}},
		},
		"a rule that is suspended keeps what stands": {
			in:     simulation(only(filed().Suspend(true)), only(network()), heldBefore(1), bad(released(2), time.Minute)),
			change: report.ChangeEdited, mode: "Suspended", want: map[string]string{"worker-1": "Stays Suspended",
				"worker-2": "None Suspended"},
			totals: report.Totals{NeverReported: 1, NodeCounts: v1alpha1.NodeCounts{Matched: 2, Held: 1, Exempt: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.in.Run()
			r := &got.Rules[0]
			if r.Change != c.change || r.Mode != c.mode || len(r.Problems) > 0 {
				t.Errorf("got %s, %s, %v; want %s, %s", r.Change, r.Mode, r.Problems, c.change, c.mode)
			}
			if diff := cmp.Diff(c.want, fates(r)); diff != "" {
				t.Errorf("nodes: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.totals, r.Totals); diff != "" {
				t.Errorf("totals: -want +got\n%s", diff)
			}
			for _, n := range r.Nodes {
				if n.Message == "" {
					t.Errorf("node %s: no word why", n.Node)
				}
			}
		})
	}
}

func TestEnforceSaysWhatADryRunRuleWouldDo(t *testing.T) {
	in := simulation(only(filed().DryRun(true)), nil, numbered(1))
	in.Enforce = true
	r := &in.Run().Rules[0]
	if !r.Hypothetical || r.Mode != "Enforced" || r.Totals.TaintsAdded != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestRulesThatDependOnEachOther(t *testing.T) {
	second := build.MakeRule("second").Selector("pool", "a").Taint("example.com/second", "", "NoSchedule").
		After("network")
	got := simulation(only(second), only(network()), heldBefore(1), released(2).Condition(cni, "True",
		ago(time.Hour))).Run()
	if diff := cmp.Diff(map[string]string{"worker-1": "Added EvidenceMissing", "worker-2": "None EvidenceHolds"},
		fates(&got.Rules[0])); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	got = simulation([]*build.RuleWrapper{filed().After("second"), second}, nil, numbered(1)).Run()
	for _, r := range got.Rules {
		if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "cycle") || len(r.Nodes) > 0 {
			t.Errorf("a circle: %+v", r)
		}
	}
}

func TestEvidenceThatIsNotThere(t *testing.T) {
	rule := filed().Evidence(v1alpha1.Requirement{Name: "ebs", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs"}})
	got := simulation(only(rule), nil, numbered(1)).Run()
	want := []string{"rule network, requirement ebs, counts as missing: the file has no CSINodes"}
	if diff := cmp.Diff(want, got.Unread); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestEvictions(t *testing.T) {
	evicting := func() *Simulation {
		return simulation(only(filed().Taint(taint, "", corev1.TaintEffectNoExecute)), nil, numbered(1),
			numbered(2).Condition(cni, "True", ago(time.Hour)))
	}
	pod := func(node string, tolerations ...corev1.Toleration) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Tolerations: tolerations}}
	}
	tolerating := func(seconds *int64) corev1.Toleration {
		return corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists, TolerationSeconds: seconds}
	}
	in := evicting()
	in.Pods = func() ([]*corev1.Pod, error) {
		return []*corev1.Pod{pod("worker-1"), pod("worker-1", tolerating(nil)), pod("worker-1",
			tolerating(new(int64(300)))), pod("worker-2"), pod("")}, nil
	}
	if got := in.Run().Rules[0].Totals.PodsEvicted; got == nil || *got != 2 {
		t.Errorf("got %v, want 2", got)
	}

	in = evicting()
	in.Pods = func() ([]*corev1.Pod, error) { return nil, errors.New("pods is forbidden") }
	got := in.Run()
	if got.Rules[0].Totals.PodsEvicted != nil || !slices.Equal(got.Unread,
		[]string{"how many pods would be evicted: pods is forbidden"}) {
		t.Errorf("got %+v", got)
	}

	in = simulation(only(filed()), nil, numbered(1))
	in.Pods = func() ([]*corev1.Pod, error) {
		panic("a taint of NoSchedule evicts nothing, and no pod is read for it")
	}
	in.Run()
}

// Ten thousand nodes are looked at in a moment.
func BenchmarkSimulation(b *testing.B) {
	var nodes []*build.NodeWrapper
	for i := range 10000 {
		nodes = append(nodes, numbered(i).Condition(cni, "False", ago(time.Duration(i)*time.Second)))
	}
	in := simulation(only(filed().MaxUnavailable("30%")), nil, nodes...)
	for b.Loop() {
		in.Run()
	}
}

// Only idle nodes are tainted; while it is not known which nodes are idle, none.
func TestSimulatesExistingNodesThatAreIdle(t *testing.T) {
	in := simulation(only(filed().ExistingNodes(v1alpha1.ExistingNodesIdle)), nil, numbered(1), numbered(2))
	busy := &corev1.Pod{}
	busy.Namespace, busy.Spec.NodeName = "default", "worker-1"
	for _, c := range []struct {
		pods   func() ([]*corev1.Pod, error)
		want   map[string]string
		unread int
	}{
		{func() ([]*corev1.Pod, error) { return []*corev1.Pod{busy}, nil },
			map[string]string{"worker-1": "None ExistingNode", "worker-2": "Added EvidenceMissing"}, 0},
		{nil, map[string]string{"worker-1": "None ExistingNode", "worker-2": "None ExistingNode"}, 1},
	} {
		in.Pods, in.byNode, in.podsErr = c.pods, nil, nil
		got := in.Run()
		if diff := cmp.Diff(c.want, fates(&got.Rules[0])); diff != "" {
			t.Error(diff)
		}
		if len(got.Unread) != c.unread {
			t.Errorf("got %q", got.Unread)
		}
	}
}

func TestSimulateATaintOfAnotherController(t *testing.T) {
	in := simulation(only(build.MakeRule("r").UID("u1").Selector("pool", "a").Condition("A").Taint("example.com/r", "",
		corev1.TaintEffectNoSchedule)), nil, numbered(1))
	in.Foreign = ruleset.Foreign{{Key: "example.com/r", Effect: corev1.TaintEffectNoSchedule}: "theirs"}
	r := in.Run().Rules[0]
	if r.Mode != "Frozen" || len(r.Nodes) > 0 || len(r.Problems) != 1 ||
		!strings.Contains(r.Problems[0], "rule theirs of another controller") {
		t.Errorf("%s, %v, %v", r.Mode, r.Nodes, r.Problems)
	}
}

func TestSimulateAKeyThatTheOperatorDoesNotAllow(t *testing.T) {
	rule := func(name, key string) *build.RuleWrapper {
		return build.MakeRule(name).UID(name).Selector("pool", "a").Condition("A").Taint(key, "",
			corev1.TaintEffectNoSchedule)
	}
	in := simulation(only(rule("r", "example.com/r")), only(rule("present", "example.com/p")), numbered(1))
	in.Rules[0].Spec.Requirements = []v1alpha1.Requirement{{Name: "p",
		RuleSatisfied: &v1alpha1.RuleSatisfiedRequirement{Name: "present"}}}
	in.KeyPrefixes = []string{"example.com/r"}
	r := in.Run().Rules[0]
	if r.Mode != "Frozen" || len(r.Nodes) > 0 || len(r.Problems) != 1 ||
		!strings.Contains(r.Problems[0], "requires rule present, which is frozen") {
		t.Errorf("requires a rule with a forbidden key: %s, %v, %v", r.Mode, r.Nodes, r.Problems)
	}
	in.KeyPrefixes = []string{"example.com/p"}
	r = in.Run().Rules[0]
	if r.Mode != "Frozen" || len(r.Nodes) > 0 || len(r.Problems) != 1 ||
		!strings.Contains(r.Problems[0], `the key "example.com/r" is not allowed`) {
		t.Errorf("a forbidden key: %s, %v, %v", r.Mode, r.Nodes, r.Problems)
	}
}

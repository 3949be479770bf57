// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
)

// Simulation is what a simulation is made from.
type Simulation struct {
	// Rules are the rules to simulate, as in the files.
	Rules []v1alpha1.NodeReadinessRule
	// Present are the rules of the cluster. A rule of Rules replaces the one with the same name.
	Present []v1alpha1.NodeReadinessRule
	// Nodes are all nodes.
	Nodes []*corev1.Node
	// Foreign are the taints of another controller.
	Foreign ruleset.Foreign
	// KeyPrefixes are the prefixes of the keys that the operator allows in rules. Without any, all keys are allowed.
	KeyPrefixes []string
	// Read reads the evidence that rules need.
	Read func(*ruleset.Set) *sources.Snapshot
	// Pods reads all pods. It is called if a taint with NoExecute would be added, or if it makes a difference which nodes
	// are in use. Nil if there are no pods to read.
	Pods func() ([]*corev1.Pod, error)
	// Enforce simulates rules that are in dry-run or suspended as if they were enforced.
	Enforce bool
	// Now is the time at which everything is evaluated.
	Now time.Time

	set      *ruleset.Set
	evidence *sources.Snapshot
	fleet    *fleet.Fleet
	byNode   map[string][]*corev1.Pod // nil until the pods are read
	podsErr  error
	out      map[string]*report.RuleSimulation // by the rule's name
}

// Run simulates the rules.
func (s *Simulation) Run() *report.Simulation {
	result := &report.Simulation{TypeMeta: report.Type("Simulation"), At: *report.Time(s.Now), Nodes: len(s.Nodes)}
	s.compile()
	s.evidence = s.Read(s.set)
	s.complete()
	s.fleet = fleet.New(quiet{}, func() time.Time { return s.Now })
	s.fleet.Restore(s.Present)
	s.fleet.SetRules(s.set, s.Nodes, s.Now)
	issue(s.fleet, s.set, s.Present, s.Now)
	for i := range s.Rules {
		rule := s.set.Named(s.Rules[i].Name)
		for j := range rule.Requirements {
			if why := s.evidence.Unread(&rule.Requirements[j]); why != "" {
				result.Unread = append(result.Unread,
					fmt.Sprintf("rule %s, requirement %s, counts as missing: %s", rule.Name, rule.Requirements[j].Name, why))
			}
		}
	}
	s.reserve()
	for _, node := range s.Nodes {
		s.node(node)
	}
	if s.podsErr != nil {
		result.Unread = append(result.Unread, "which nodes have pods (existing ones stay untainted): "+s.podsErr.Error())
	}
	if err := s.evictions(); err != nil {
		result.Unread = append(result.Unread, "how many pods would be evicted: "+err.Error())
	}
	for i := range s.Rules {
		r := s.out[s.Rules[i].Name]
		if m, ok := s.fleet.Material(s.set.Named(r.Rule).UID); ok {
			r.Totals.NodeCounts = m.Counts
		}
		slices.SortStableFunc(r.Nodes, func(a, b report.NodeSimulation) int {
			return cmp.Or(cmp.Compare(importance(&a), importance(&b)), strings.Compare(a.Node, b.Node))
		})
		result.Rules = append(result.Rules, *r)
	}
	return result
}

// compile replaces the rules of the cluster, as the API server and the operator would.
func (s *Simulation) compile() {
	s.set, s.out = ruleset.NewSet(), map[string]*report.RuleSimulation{}
	before := map[string]*v1alpha1.NodeReadinessRule{}
	for i := range s.Present {
		before[s.Present[i].Name] = &s.Present[i]
		s.set = s.set.With(ruleset.Compile(&s.Present[i], nil, s.Now))
	}
	for i := range s.Rules {
		file := &s.Rules[i]
		hypothetical := s.Enforce && (file.Spec.DryRun || file.Spec.Suspend)
		s.out[file.Name] = &report.RuleSimulation{Rule: file.Name, Hypothetical: hypothetical}
		s.set = s.set.With(s.replace(before[file.Name], file))
	}
}

// complete adds to the rules what depends on the evidence, and reports how far they are in force.
func (s *Simulation) complete() {
	s.set = s.evidence.Resolve(s.set.Resolve(ruleset.Known{Foreign: s.Foreign, KeyPrefixes: s.KeyPrefixes},
		ruleset.NewSet()))
	for name, r := range s.out {
		rule := s.set.Named(name)
		r.Mode, r.Problems = rule.Mode.String(), state.Problems(rule)
		if rule.Taint != nil {
			r.Taint = nodeview.FormatTaint(*rule.Taint)
		}
	}
}

// replace returns a rule as it would be after it is stored.
func (s *Simulation) replace(before, file *v1alpha1.NodeReadinessRule) *ruleset.Rule {
	after, change := file.DeepCopy(), &s.out[file.Name].Change
	if s.Enforce {
		after.Spec.DryRun, after.Spec.Suspend = false, false
	}
	if before == nil {
		*change = report.ChangeCreated
		after.UID, after.Generation = types.UID("simulated-"+file.Name), 1
		after.CreationTimestamp = metav1.NewTime(s.Now.Truncate(time.Second))
		after.DeletionTimestamp, after.Status = nil, v1alpha1.NodeReadinessRuleStatus{}
		return ruleset.Compile(after, nil, s.Now)
	}
	after.ObjectMeta, after.Status = *before.ObjectMeta.DeepCopy(), *before.Status.DeepCopy()
	*change = report.ChangeUnchanged
	if !equality.Semantic.DeepEqual(before.Spec, file.Spec) {
		*change = report.ChangeEdited
	}
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		after.Generation++
	}
	return ruleset.Compile(after, ruleset.Compile(before, nil, s.Now), s.Now)
}

// reserve distributes what the limits leave after all possible releases.
func (s *Simulation) reserve() {
	distribute(s.fleet, s.Nodes, func(node *corev1.Node, reserve Reserve) {
		d := Decide(node, s.set, s.evidence, s.Now, reserve, s.runs(node))
		s.record(node, d.Decisions, func(d *state.Decision) bool { return d.Was.Claimed && d.Claim })
	})
}

// node decides about a node, and notes what the simulated rules would do to it.
func (s *Simulation) node(node *corev1.Node) {
	all := Decide(node, s.set, s.evidence, s.Now, func(rule *ruleset.Rule, ask limit.Request) string {
		return s.fleet.Reserve(rule.UID, node.Name, ask)
	}, s.runs(node))
	s.record(node, all.Decisions, func(d *state.Decision) bool { return d.Claim })
	for i := range all.Decisions {
		d := &all.Decisions[i]
		r := s.out[d.Rule.Name]
		if r == nil || d.State == "" && !all.does(d.Rule) || d.Rule.Mode == ruleset.Frozen {
			continue
		}
		n := report.NodeSimulation{
			Node: node.Name, Taint: fate(all, d, node), State: d.State, Reason: d.Reason,
			Message: d.Message(s.Now), Next: report.Time(d.RecheckAt),
		}
		r.Nodes = append(r.Nodes, n)
		count(&r.Totals, &n, d, d.Verdict.NeverAppeared)
	}
}

// runs returns a function that reports whether a pod that counts runs on a node. It reads the pods when it is first
// called.
func (s *Simulation) runs(node *corev1.Node) Runs {
	return func(counts func(*corev1.Pod) bool) (runs, known bool) {
		if s.byNode == nil {
			s.byNode = map[string][]*corev1.Pod{}
			var pods []*corev1.Pod
			if s.podsErr = errors.New("no pods are given"); s.Pods != nil {
				pods, s.podsErr = s.Pods()
			}
			for _, pod := range pods {
				s.byNode[pod.Spec.NodeName] = append(s.byNode[pod.Spec.NodeName], pod)
			}
		}
		return slices.ContainsFunc(s.byNode[node.Name], counts), s.podsErr == nil
	}
}

// record stores in the fleet how a node stands, with the claims that it has then.
func (s *Simulation) record(node *corev1.Node, decisions []state.Decision, claimed func(*state.Decision) bool) {
	entries := make([]fleet.Entry, 0, len(decisions))
	for i := range decisions {
		d := &decisions[i]
		standing := d.Was
		standing.Claimed = claimed(d)
		entries = append(entries, fleet.Entry{Rule: d.Rule, Current: &standing,
			Outcome: fleet.Outcome{State: d.State, Reason: d.Reason}})
	}
	s.fleet.Record(node, entries, s.Now)
}

func count(t *report.Totals, n *report.NodeSimulation, d *state.Decision, neverAppeared bool) {
	switch n.Taint {
	case report.TaintAdded:
		t.TaintsAdded++
		if d.Was.Released {
			t.TaintsAddedInService++
		}
	case report.TaintRemoved:
		t.TaintsRemoved++
	}
	if d.Reason == state.ReasonOverBudget {
		t.OverBudget++
	}
	if d.State == v1alpha1.NodeStateHeld && neverAppeared {
		t.NeverReported++
	}
}

// fate returns what happens to a rule's taint on a node. If the key of the taint is edited, the rule adds one taint and
// removes another: the node keeps pods off.
func fate(all *Decided, d *state.Decision, node *corev1.Node) string {
	switch {
	case all.does(d.Rule, taints.Added):
		return report.TaintAdded
	case all.does(d.Rule, taints.Removed):
		return report.TaintRemoved
	case nodeview.Find(node, d.Rule.Taint) != nil:
		return report.TaintStays
	}
	return report.TaintNone
}

// importance sorts nodes: those whose taint changes come first, ready ones last.
func importance(n *report.NodeSimulation) int {
	if n.Taint == report.TaintNone && n.State == v1alpha1.NodeStateReady {
		return 4
	}
	return slices.Index([]string{report.TaintAdded, report.TaintRemoved, report.TaintStays, report.TaintNone}, n.Taint)
}

// evictions counts the pods that taints with NoExecute would evict, at once or when a toleration ends.
func (s *Simulation) evictions() error {
	for _, r := range s.out {
		taint := s.set.Named(r.Rule).Taint
		if r.Totals.TaintsAdded == 0 || taint.Effect != corev1.TaintEffectNoExecute || s.Pods == nil {
			continue
		}
		pods, err := s.Pods()
		if err != nil {
			return err
		}
		tainted := map[string]bool{}
		for _, n := range r.Nodes {
			tainted[n.Node] = n.Taint == report.TaintAdded
		}
		evicted := 0
		for _, pod := range pods {
			_, due := guard.Due(pod, []corev1.Taint{*taint})
			if due && tainted[pod.Spec.NodeName] && pod.DeletionTimestamp.IsZero() {
				evicted++
			}
		}
		r.Totals.PodsEvicted = &evicted
	}
	return nil
}

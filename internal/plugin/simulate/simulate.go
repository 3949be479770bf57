// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
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
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
)

// Evidence is what requirements are judged by.
type Evidence interface {
	Gather(set *ruleset.Set, node string, e *readiness.Evidence)
	Unread(r *ruleset.Requirement) string
}

// Input is what is known.
type Input struct {
	// Rules are the rules whose effect is asked for, as in the files.
	Rules []v1alpha1.NodeReadinessRule
	// Present are the rules that there are. One of the same name as one of Rules is replaced by it.
	Present []v1alpha1.NodeReadinessRule
	// Nodes are all nodes.
	Nodes []*corev1.Node
	// Read reads the evidence that rules need.
	Read func(*ruleset.Set) Evidence
	// Pods reads all pods; it is called where a taint of NoExecute would be put on a node. Nil, where there are none to read.
	Pods func() ([]*corev1.Pod, error)
	// Enforce says what rules would do if they were neither in dry-run nor suspended.
	Enforce bool
	// Now is the moment that everything is judged at.
	Now time.Time
}

// simulation is a simulation on its way.
type simulation struct {
	*Input
	set      *ruleset.Set
	evidence Evidence
	fleet    *fleet.Fleet
	changes  map[string]string // by the rule's name
	out      map[string]*report.RuleSimulation
}

// Rules simulates rules.
func Rules(in *Input) *report.Simulation {
	s := &simulation{Input: in, changes: map[string]string{}, out: map[string]*report.RuleSimulation{}}
	s.compile()
	s.evidence = in.Read(s.set)
	s.fleet = fleet.New(quiet{})
	s.fleet.SetRules(s.set, in.Nodes, in.Now)

	result := &report.Simulation{TypeMeta: report.Type(report.KindSimulation), At: metav1.NewTime(in.Now.Truncate(time.Second)), Nodes: len(in.Nodes)}
	for i := range in.Rules {
		s.out[in.Rules[i].Name] = s.start(s.set.Named(in.Rules[i].Name), &in.Rules[i])
	}
	result.Unread = s.unread()
	s.reserve()
	for _, node := range in.Nodes {
		s.node(node)
	}
	if err := s.evictions(); err != nil {
		result.Unread = append(result.Unread, "how many pods would be evicted: "+err.Error())
	}
	for i := range in.Rules {
		r := s.out[in.Rules[i].Name]
		if m, ok := s.fleet.Material(s.set.Named(r.Rule).UID); ok {
			r.Totals.NodeCounts = m.Counts
		}
		slices.SortStableFunc(r.Nodes, func(a, b report.NodeSimulation) int {
			return cmp.Or(cmp.Compare(rank(&a), rank(&b)), strings.Compare(a.Node, b.Node))
		})
		result.Rules = append(result.Rules, *r)
	}
	return result
}

// compile puts the rules in the places of those that there are, as the API server and the operator would.
func (s *simulation) compile() {
	set := ruleset.NewSet()
	before := map[string]*v1alpha1.NodeReadinessRule{}
	for i := range s.Present {
		before[s.Present[i].Name] = &s.Present[i]
		set = set.With(ruleset.Compile(&s.Present[i], nil, s.Now))
	}
	for i := range s.Rules {
		set = set.With(s.replace(before[s.Rules[i].Name], &s.Rules[i]))
	}
	s.set = set.BreakCycles(ruleset.NewSet())
}

// replace is a rule as it would be once it is stored.
func (s *simulation) replace(before, file *v1alpha1.NodeReadinessRule) *ruleset.Rule {
	after := file.DeepCopy()
	if s.Enforce {
		after.Spec.DryRun, after.Spec.Suspend = false, false
	}
	if before == nil {
		s.changes[file.Name] = report.ChangeCreated
		after.UID, after.Generation = types.UID("simulated-"+file.Name), 1
		after.CreationTimestamp = metav1.NewTime(s.Now.Truncate(time.Second))
		after.DeletionTimestamp, after.Status = nil, v1alpha1.NodeReadinessRuleStatus{}
		return ruleset.Compile(after, nil, s.Now)
	}
	after.ObjectMeta, after.Status = *before.ObjectMeta.DeepCopy(), *before.Status.DeepCopy()
	s.changes[file.Name] = report.ChangeUnchanged
	if !equality.Semantic.DeepEqual(before.Spec, file.Spec) {
		s.changes[file.Name] = report.ChangeEdited
	}
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		after.Generation++
	}
	return ruleset.Compile(after, ruleset.Compile(before, nil, s.Now), s.Now)
}

func (s *simulation) start(rule *ruleset.Rule, file *v1alpha1.NodeReadinessRule) *report.RuleSimulation {
	r := &report.RuleSimulation{Rule: rule.Name, Change: s.changes[rule.Name], Mode: rule.Mode.String()}
	r.Hypothetical = s.Enforce && (file.Spec.DryRun || file.Spec.Suspend)
	for _, p := range rule.Problems {
		r.Problems = append(r.Problems, p.String())
	}
	if rule.Taint != nil {
		r.Taint = gate.FormatTaint(*rule.Taint)
	}
	return r
}

// unread says which evidence of the simulated rules could not be read.
func (s *simulation) unread() []string {
	var out []string
	for i := range s.Rules {
		rule := s.set.Named(s.Rules[i].Name)
		for j := range rule.Requirements {
			if why := s.evidence.Unread(&rule.Requirements[j]); why != "" {
				out = append(out, fmt.Sprintf("rule %s, requirement %s, counts as missing: %s", rule.Name, rule.Requirements[j].Name, why))
			}
		}
	}
	return out
}

// reserve shares out what the breakers leave room for once everything is released that can be, to those first that are
// longest not ready.
func (s *simulation) reserve() {
	type claim struct {
		rule  types.UID
		node  string
		since time.Time
	}
	var claims []claim
	for _, node := range s.Nodes {
		_, out := s.decide(node, func(rule *ruleset.Rule, since time.Time) bool {
			claims = append(claims, claim{rule.UID, node.Name, since})
			return true
		})
		s.record(node, out.Decisions, func(d *gate.Decision) bool { return d.Was.Claimed && d.Claim })
	}
	slices.SortFunc(claims, func(a, b claim) int { return cmp.Or(a.since.Compare(b.since), strings.Compare(a.node, b.node)) })
	for _, c := range claims {
		s.fleet.Reserve(c.rule, c.node, c.since)
	}
}

func (s *simulation) decide(node *corev1.Node, reserve func(*ruleset.Rule, time.Time) bool) (taints.Swept, gate.Outcome) {
	override, _ := gate.OverrideOf(node, s.Now) // one that cannot be read is ignored
	swept := taints.Sweep(node, s.set, func(string) bool { return true })
	in := &gate.NodeInput{
		Node: node, Swept: swept.Node, Rules: s.set,
		Evidence: &readiness.Evidence{}, Override: override, Now: s.Now, Observed: explain.Observed, Reserve: reserve,
	}
	s.evidence.Gather(s.set, node.Name, in.Evidence)
	return swept, gate.DecideNode(in)
}

// node decides about a node, and notes what the simulated rules would do to it.
func (s *simulation) node(node *corev1.Node) {
	swept, out := s.decide(node, func(rule *ruleset.Rule, since time.Time) bool { return s.fleet.Reserve(rule.UID, node.Name, since) })
	plan := taints.Plan(node, swept, out.Decisions, s.Now)
	s.record(node, out.Decisions, func(d *gate.Decision) bool { return d.Claim })
	for i := range out.Decisions {
		d, v := &out.Decisions[i], &out.Verdicts[i]
		r := s.out[d.Rule.Name]
		if r == nil || d.State == "" && !changed(&plan, d.Rule) || d.Rule.Mode == ruleset.Frozen {
			continue
		}
		n := report.NodeSimulation{
			Node: node.Name, Taint: fate(&plan, d, node), State: d.State, Reason: d.Reason,
			Message: explain.Message(d, v, s.Now), Next: report.Time(d.RecheckAt),
		}
		r.Nodes = append(r.Nodes, n)
		count(&r.Totals, &n, d, v)
	}
}

// record tells the fleet how a node stands, with the claims that it has then.
func (s *simulation) record(node *corev1.Node, decisions []gate.Decision, claimed func(*gate.Decision) bool) {
	entries := make([]fleet.Entry, 0, len(decisions))
	for i := range decisions {
		d := &decisions[i]
		standing := d.Was
		standing.Claimed = claimed(d)
		entries = append(entries, fleet.Entry{Rule: d.Rule, Current: standing, State: d.State, Reason: d.Reason})
	}
	s.fleet.Record(node, entries, s.Now)
}

func count(t *report.Totals, n *report.NodeSimulation, d *gate.Decision, v *readiness.Verdict) {
	switch n.Taint {
	case report.TaintAdded:
		t.TaintsAdded++
		if d.Was.Released {
			t.TaintsAddedInService++
		}
	case report.TaintRemoved:
		t.TaintsRemoved++
	}
	if d.Reason == gate.ReasonOverBudget {
		t.OverBudget++
	}
	if d.State == v1alpha1.NodeStateHeld && v.NeverAppeared {
		t.NeverReported++
	}
}

func changed(plan *taints.Outcome, rule *ruleset.Rule) bool {
	return slices.ContainsFunc(plan.Changes, func(c taints.Change) bool { return c.Rule == rule })
}

// fate is what becomes of a rule's taint on a node. A rule whose key is edited adds one and removes another: what counts is
// that pods are kept off.
func fate(plan *taints.Outcome, d *gate.Decision, node *corev1.Node) string {
	added, removed := false, false
	for i := range plan.Changes {
		c := &plan.Changes[i]
		if c.Rule == d.Rule {
			added = added || c.Operation == taints.Added
			removed = removed || c.Operation == taints.Removed
		}
	}
	switch {
	case added:
		return report.TaintAdded
	case removed:
		return report.TaintRemoved
	case gate.Find(node, d.Rule.Taint) != nil:
		return report.TaintStays
	}
	return report.TaintNone
}

func rank(n *report.NodeSimulation) int {
	switch n.Taint {
	case report.TaintAdded:
		return 0
	case report.TaintRemoved:
		return 1
	case report.TaintStays:
		return 2
	}
	if n.State != v1alpha1.NodeStateReady {
		return 3
	}
	return 4
}

// quiet is a fleet's listener that does not listen.
type quiet struct{}

func (quiet) RuleChanged(string) {}
func (quiet) Enqueue([]string)   {}

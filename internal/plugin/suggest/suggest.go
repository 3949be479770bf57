// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
	"github.com/nodegate/nodegate/internal/sources"
)

// Cluster is the state of a cluster that rules are made for.
type Cluster struct {
	Nodes      []*corev1.Node
	DaemonSets []*appsv1.DaemonSet
	// Drivers are the CSI drivers that nodes have registered, by the node. nil means that this is unknown.
	Drivers map[string][]string
	Slices  []*resourcev1.ResourceSlice
	// Rules are the rules that exist.
	Rules []v1alpha1.NodeReadinessRule
	// KeyPrefixes are the prefixes of the keys that the operator allows in rules. Without any, all keys are allowed.
	KeyPrefixes []string
	// Read reads the evidence that rules need.
	Read func(*ruleset.Set) *sources.Snapshot
	Now  time.Time
}

// Suggestions are the rules for a cluster.
type Suggestions struct {
	Rules []*Rule
	// Notes name what was left out, and why.
	Notes []string
}

// Rule is a suggested rule.
type Rule struct {
	Name string
	Spec v1alpha1.NodeReadinessRuleSpec
	// Why says which component was recognized, and by what.
	Why []string
	// Selected is how many nodes the rule selects, and Held names those that it would hold now, if it was enforced for
	// existing nodes, too. Unread says that the evidence could not be read, so that Held is not known.
	Selected int
	Held     []string
	Unread   bool
	// Limit is the value for maxUnavailable with which the rule may become continuous.
	Limit intstr.IntOrString
	// Problems say why a new node might never be released. Such a rule must not be applied as it is.
	Problems []string
	// Tolerate names the DaemonSets that need a toleration for the rule's taint.
	Tolerate []string

	nodes []string         // those that the rule selects
	needs []*lint.Workload // what must start before the rule is satisfied
}

func (r *Rule) taint() *corev1.Taint {
	t := r.Spec.Taint
	return &corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
}

// kinds are the kinds of components, with the names of the rules and their taints.
var kinds = []struct{ name, key string }{
	{network, "readiness.k8s.io/NetworkReady"},
	{storage, "readiness.k8s.io/StorageReady"},
	{devices, "readiness.k8s.io/DevicesReady"},
}

const (
	network = "network"
	storage = "storage"
	devices = "devices"
)

// For suggests rules for a cluster.
func For(c *Cluster) *Suggestions {
	s := &suggester{Cluster: c, set: ruleset.NewSet()}
	for i := range c.Rules {
		s.set = s.set.With(ruleset.Compile(&c.Rules[i], nil, c.Now))
	}
	for _, n := range c.Nodes {
		if n.Labels[corev1.LabelOSStable] == "linux" && !ruleset.ControlPlane(n.Labels) {
			s.workers = append(s.workers, n)
		}
	}
	for _, d := range c.DaemonSets {
		if d.DeletionTimestamp.IsZero() {
			s.workloads = append(s.workloads, lint.DaemonSet(d))
			s.limits = append(s.limits, rollout(d))
			s.selectors = append(s.selectors, d.Spec.Selector)
		}
	}
	if len(s.workers) == 0 {
		s.note("the cluster has no Linux nodes besides those of the control plane, so there are no rules to suggest")
		return &s.out
	}
	s.network()
	s.storage()
	s.resources()
	s.drivers()
	s.unused()
	s.conditions()
	for _, kind := range kinds {
		s.rules(kind.name, kind.key)
	}
	s.together()
	return &s.out
}

// together finds rules whose components wait for each other: a new node gets the taints of all rules at once, and a
// rule is satisfied only after the taints that its components do not tolerate are gone.
func (s *suggester) together() {
	waiting := slices.DeleteFunc(slices.Clone(s.out.Rules), func(r *Rule) bool { return len(r.Problems) > 0 })
	blocks := func(r *Rule) func(*Rule) bool {
		return func(o *Rule) bool {
			return o != r && slices.ContainsFunc(o.nodes, func(n string) bool { return slices.Contains(r.nodes, n) }) &&
				slices.ContainsFunc(r.needs, func(w *lint.Workload) bool { return !w.DaemonSet.Tolerates(o.taint()) })
		}
	}
	for before := -1; before != len(waiting); {
		before = len(waiting)
		all := slices.Clone(waiting)
		waiting = slices.DeleteFunc(waiting, func(r *Rule) bool { return !slices.ContainsFunc(all, blocks(r)) })
	}
	for _, r := range waiting {
		r.Problems = append(r.Problems, "its components and those of other suggested rules wait for each other: they do not "+
			"tolerate the taints of each other's rules")
	}
}

type suggester struct {
	*Cluster
	set       *ruleset.Set
	workers   []*corev1.Node
	workloads []lint.Workload
	limits    []intstr.IntOrString    // of the rollouts of workloads
	selectors []*labelSelector        // of workloads
	found     []*component            // in the order of their discovery
	used      map[*lint.Workload]bool // the device plugins whose resources were found
	out       Suggestions
}

func (s *suggester) note(format string, args ...any) {
	s.out.Notes = append(s.out.Notes, fmt.Sprintf(format, args...))
}

// rollout returns how many pods of a DaemonSet may be missing while it is updated.
func rollout(d *appsv1.DaemonSet) intstr.IntOrString {
	if u := d.Spec.UpdateStrategy.RollingUpdate; u != nil && u.MaxUnavailable != nil {
		return *u.MaxUnavailable
	}
	return intstr.FromInt32(1)
}

// rules makes the rules of a kind: one for all components that run on the same nodes, and one for each that could hold
// a new node for good.
func (s *suggester) rules(kind, key string) {
	var groups [][]*component
	plain := true
	for _, c := range s.found {
		if c.kind != kind {
			continue
		}
		if r := s.present(c); r != "" {
			s.note("%s: rule %s requires %s already", kind, r, c.what)
			plain = plain && r != kind // the name belongs to a rule that was suggested before
			continue
		}
		i := slices.IndexFunc(groups, func(g []*component) bool { return slices.Equal(g[0].nodes, c.nodes) })
		if i < 0 || len(s.rule(kind, key, []*component{c}).Problems) > 0 {
			groups = append(groups, []*component{c})
			continue
		}
		groups[i] = append(groups[i], c)
	}
	// Rules that can be applied come first, and have the plain name.
	slices.SortStableFunc(groups, func(a, b []*component) int {
		return min(len(s.rule(kind, key, a).Problems), 1) - min(len(s.rule(kind, key, b).Problems), 1)
	})
	for i, group := range groups {
		name, key := kind, key
		if i > 0 || !plain {
			name, key = kind+"-"+group[0].requirement.Name, key+"-"+group[0].requirement.Name
		}
		if by := s.taken(name, key); by != "" {
			s.note("%s: %s: nothing is suggested for %s", kind, by, group[0].what)
			continue
		}
		r := s.rule(name, key, group)
		// The key is no reason to split a group.
		if p := ruleset.Compile(r.Object(), nil, s.Now).Forbidden(s.KeyPrefixes); p != nil {
			r.Problems = append(r.Problems, p.Field+": "+p.Message)
		}
		r.Held = s.held(r)
		s.out.Rules = append(s.out.Rules, r)
	}
}

// taken says who uses the name or the taint of a rule already, or returns "".
func (s *suggester) taken(name, key string) string {
	if s.set.Named(name) != nil {
		return fmt.Sprintf("rule %s exists already", name)
	}
	for _, r := range s.set.All() {
		if r.Taint != nil && r.Taint.Key == key {
			return fmt.Sprintf("rule %s uses the taint %s already", r.Name, key)
		}
	}
	for _, n := range s.Nodes {
		for _, t := range n.Spec.Taints {
			if t.Key == key {
				return fmt.Sprintf("node %s has the taint %s, which belongs to no rule", n.Name, key)
			}
		}
	}
	return ""
}

// rule makes a rule for components that run on the same nodes.
func (s *suggester) rule(name, key string, group []*component) *Rule {
	r := &Rule{Name: name, Selected: len(group[0].nodes), Limit: s.limit(group), nodes: group[0].nodes}
	r.Spec = v1alpha1.NodeReadinessRuleSpec{
		Taint:           &v1alpha1.Taint{Key: key, Value: "pending", Effect: "NoSchedule"},
		EnforcementMode: v1alpha1.EnforcementModeBootstrapOnly,
		ExistingNodes:   v1alpha1.ExistingNodesNone,
		Timeout:         &v1alpha1.Timeout{Seconds: new(int32(1800)), Action: v1alpha1.TimeoutActionRelease},
		DryRun:          true,
	}
	var exact bool
	if r.Spec.NodeSelector, exact = s.selector(group); !exact {
		r.Problems = append(r.Problems, "no label that nodes have at their creation selects the nodes with "+
			group[0].what+" only: replace the selector by a label of their node pool")
	}
	everywhere := exact && group[0].kind == devices && equality.Semantic.DeepEqual(r.Spec.NodeSelector, workers())
	for _, c := range group {
		r.Why = append(r.Why, c.why...)
		r.Spec.Conditions = append(r.Spec.Conditions, c.conditions...)
		if c.requirement.Name != "" {
			r.Spec.Requirements = append(r.Spec.Requirements, c.requirement)
		}
	}
	if everywhere {
		r.Why = append(r.Why, "All workers have it today: narrow the selector before workers without it join.")
	}
	s.check(r, group)
	return r
}

// check finds what could keep a rule from releasing a new node. The warnings of lint are such problems, too.
func (s *suggester) check(r *Rule, group []*component) {
	taint := r.taint()
	need := func(w *lint.Workload, why string) {
		r.needs = append(r.needs, w)
		if name := w.Namespace + "/" + w.Name; !w.DaemonSet.Tolerates(taint) && !slices.Contains(r.Tolerate, name) {
			r.Tolerate = append(r.Tolerate, name)
			r.Problems = append(r.Problems, fmt.Sprintf("DaemonSet %s %s, and does not tolerate the taint %s: it would never "+
				"start on a new node", name, why, taint.Key))
		}
	}
	for _, c := range group {
		for _, w := range c.providers {
			need(w, "provides "+c.what)
			if label := setByPods(w.Pod); label != "" {
				labelers := s.labelers()
				if len(labelers) == 0 {
					r.Problems = append(r.Problems, fmt.Sprintf("DaemonSet %s needs the label %s, and no DaemonSet is known to set "+
						"it: check that what sets it tolerates the taint %s", w.DaemonSet, label, taint.Key))
				}
				for _, labeler := range labelers {
					need(labeler, fmt.Sprintf("sets labels such as %s, which %s needs", label, w.DaemonSet))
				}
			}
		}
	}
	if len(r.Problems) > 0 {
		return
	}
	rule, facts := ruleset.Compile(r.Object(), nil, s.Now), lint.Facts{Nodes: s.Nodes, Workloads: s.workloads}
	for _, p := range lint.Problems(rule, s.set, facts) {
		r.Problems = append(r.Problems, p.Field+": "+p.Message)
	}
	for _, w := range lint.Warnings(rule, s.set, facts) {
		if !w.Code.Advice() {
			r.Problems = append(r.Problems, w.String())
		}
	}
}

// limit returns a limit for a continuous rule: 10 %, or what the rollouts of the DaemonSets take.
func (s *suggester) limit(group []*component) intstr.IntOrString {
	limit, nodes := intstr.FromString("10%"), len(group[0].nodes)
	for _, c := range group {
		for _, w := range c.providers {
			own, of := s.limits[s.index(w)], nodes
			if own.Type == limit.Type {
				of = 100
			}
			if scaled(own, of) > scaled(limit, of) {
				limit = own
			}
		}
	}
	return limit
}

func scaled(n intstr.IntOrString, of int) int {
	out, err := intstr.GetScaledValueFromIntOrPercent(&n, of, true)
	if err != nil {
		return 0
	}
	return out
}

func (s *suggester) index(w *lint.Workload) int {
	return slices.IndexFunc(s.workloads, func(o lint.Workload) bool { return o.DaemonSet == w.DaemonSet })
}

// held returns the nodes that a rule would hold now, if it was enforced for existing nodes, too.
func (s *suggester) held(r *Rule) []string {
	object := r.Object()
	object.Spec.DryRun, object.Spec.ExistingNodes, object.Spec.Timeout = false, v1alpha1.ExistingNodesAll, nil
	in := &explain.Simulation{Rules: []v1alpha1.NodeReadinessRule{*object}, Present: s.Rules, Nodes: s.Nodes,
		Read: s.Read, Now: s.Now}
	result := in.Run()
	for _, unread := range result.Unread {
		s.note("%s: %s", r.Name, strings.TrimPrefix(unread, "rule "+r.Name+", "))
		r.Unread = true
	}
	var out []string
	for _, n := range result.Rules[0].Nodes {
		if n.State == v1alpha1.NodeStateHeld {
			out = append(out, n.Node)
		}
	}
	slices.Sort(out)
	return out
}

// Object returns the rule as it is applied.
func (r *Rule) Object() *v1alpha1.NodeReadinessRule {
	out := &v1alpha1.NodeReadinessRule{Spec: *r.Spec.DeepCopy()}
	out.Name = r.Name
	out.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("NodeReadinessRule"))
	return out
}

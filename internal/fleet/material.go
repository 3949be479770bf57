// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// maxNames is how many names of nodes a dry-run's lists have at most.
const maxNames = 10

// Material is what a rule's status is made from.
type Material struct {
	// Rule is the version of the rule that the rest is about.
	Rule *ruleset.Rule
	// Counts are over all nodes that the rule matches.
	Counts v1alpha1.NodeCounts
	// Released and MaxUnavailable are maxUnavailable's denominator and what it allows; Waiting is how many nodes it keeps
	// from being tainted.
	Released, MaxUnavailable, Waiting int
	// WaitingNodes are the names of those nodes, the longest unready first.
	WaitingNodes []string
	// Shared is on how many nodes an older claim decides about the rule's taint.
	Shared int
	// Warning is what makes the rule's evidence weaker than it looks on some node; the first, in the order of letters.
	Warning string
	// Causes are why nodes in service do not satisfy the rule.
	Causes []Cause
	// Displaced is on how many nodes an older rule publishes a condition of this rule's probes, and DisplacedBy which.
	Displaced   int
	DisplacedBy string
	// Guarded is on how many nodes the rule guards pods from eviction, and GuardEnded on how many it did for so long that
	// they are evicted.
	Guarded, GuardEnded int
	// Applied, Failed and Evaluations are the bounded lists; Truncated, whether they leave nodes out.
	Applied     []string
	Failed      []v1alpha1.NodeFailure
	Evaluations []v1alpha1.NodeEvaluation
	Truncated   bool
	// ToTaint and ToUntaint are how many nodes a dry-run would taint and untaint, with some names; Risky, how many it
	// would hold for lack of any evidence.
	ToTaint, ToUntaint, Risky    int
	NamesToTaint, NamesToUntaint []string
}

// Material gathers what a rule's status is made from; false for a rule that is not known.
func (f *Fleet) Material(rule types.UID) (Material, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.rules[rule]
	if state == nil {
		return Material{}, false
	}
	m := Material{Rule: state.rule, Released: state.limit.released, Waiting: len(state.limit.waiting)}
	m.WaitingNodes = state.limit.longest(m.Waiting)
	m.MaxUnavailable = state.rule.MaxUnavailable(m.Released)
	names := make([]string, 0, len(state.entries))
	for name, e := range state.entries {
		if e.matches() || e.State == v1alpha1.NodeStateFailed {
			names = append(names, name)
		}
		m.count(e)
		if e.Warning != "" && (m.Warning == "" || e.Warning < m.Warning) {
			m.Warning = e.Warning
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if n := rank(state.entries[a]) - rank(state.entries[b]); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	m.list(names, state.entries)
	m.Causes = causes(state.entries)
	return m, true
}

func (m *Material) count(e *Entry) {
	if e.Shared {
		m.Shared++
	}
	if e.Displaced != "" {
		m.Displaced++
		if m.DisplacedBy == "" || e.Displaced < m.DisplacedBy { // always the same of several
			m.DisplacedBy = e.Displaced
		}
	}
	if !e.matches() {
		return
	}
	m.Counts.Matched++
	switch e.State {
	case v1alpha1.NodeStateReady:
		m.Counts.Ready++
	case v1alpha1.NodeStateHeld:
		m.Counts.Held++
	case v1alpha1.NodeStateExempt:
		m.Counts.Exempt++
	case v1alpha1.NodeStateFailed:
		m.Counts.Failed++
	default:
		m.Counts.Pending++
	}
	switch e.Hold {
	case gate.HoldStands:
		m.Guarded++
	case gate.HoldEnded:
		m.GuardEnded++
	}
	if e.WouldClaim {
		m.ToTaint++
		if e.Risky {
			m.Risky++
		}
	}
	if e.WouldRelease {
		m.ToUntaint++
	}
}

// rank puts failed and held nodes first: they are what people look for.
func rank(e *Entry) int {
	switch e.State {
	case v1alpha1.NodeStateFailed:
		return 0
	case v1alpha1.NodeStateHeld:
		return 1
	case v1alpha1.NodeStateExempt:
		return 2
	case v1alpha1.NodeStatePending:
		return 3
	}
	return 4
}

// list fills the lists with as many nodes as there is room for.
func (m *Material) list(names []string, entries map[string]*Entry) {
	used, size := 0, 0
	for _, name := range names {
		e := entries[name]
		if e.WouldClaim && len(m.NamesToTaint) < maxNames {
			m.NamesToTaint = append(m.NamesToTaint, name)
		}
		if e.WouldRelease && len(m.NamesToUntaint) < maxNames {
			m.NamesToUntaint = append(m.NamesToUntaint, name)
		}
		if m.Truncated {
			continue
		}
		evaluation, failure := describe(name, e)
		n, bytes := 1, len(name)+4
		if evaluation != nil {
			n, bytes = n+1, bytes+encodedSize(evaluation)
		}
		if failure != nil {
			n, bytes = n+1, bytes+encodedSize(failure)
		}
		if used+n > v1alpha1.MaxStatusNodes || size+bytes > v1alpha1.MaxStatusNodesBytes {
			m.Truncated = true
			continue
		}
		used, size = used+n, size+bytes
		m.Applied = append(m.Applied, name)
		if evaluation != nil {
			m.Evaluations = append(m.Evaluations, *evaluation)
		}
		if failure != nil {
			m.Failed = append(m.Failed, *failure)
		}
	}
}

func describe(name string, e *Entry) (*v1alpha1.NodeEvaluation, *v1alpha1.NodeFailure) {
	at := metav1.NewTime(e.changedAt.Truncate(time.Second))
	if e.State == v1alpha1.NodeStateFailed {
		return nil, &v1alpha1.NodeFailure{NodeName: name, Reason: e.Reason, Message: Clip(e.Message), LastEvaluationTime: at}
	}
	if e.pending {
		return nil, nil
	}
	status := v1alpha1.TaintAbsent
	if e.Present {
		status = v1alpha1.TaintPresent
	}
	return &v1alpha1.NodeEvaluation{
		NodeName: name, ConditionResults: e.Results, RequirementResults: e.Requirements, TaintStatus: status,
		State: e.State, Reason: e.Reason, LastEvaluationTime: at,
	}, nil
}

func encodedSize(v any) int {
	raw, err := json.Marshal(v)
	if err != nil {
		return v1alpha1.MaxStatusNodesBytes
	}
	return len(raw) + 1
}

// Clip bounds a message for a status.
func Clip(s string) string {
	if len(s) <= v1alpha1.MaxStatusMessage {
		return s
	}
	return strings.ToValidUTF8(s[:v1alpha1.MaxStatusMessage-3], "") + "..."
}

// Counts is a rule's counts, for the metrics.
type Counts struct {
	Rule string
	v1alpha1.NodeCounts
	// Mode is how far the rule is in force.
	Mode ruleset.Mode
	// BootstrapOnly is the rule's enforcement mode.
	BootstrapOnly bool
	// Closed is on how many nodes the rule keeps pods off: it holds them, or could not be evaluated and its taint is there.
	Closed int32
	// Overridden is for how many nodes the override annotation overrules it, OverBudget how many nodes its limit keeps
	// from being tainted, Guarded on how many it keeps pods from eviction.
	Overridden, OverBudget, Guarded int
}

// closed reports whether the rule keeps pods off the node.
func (e *Entry) closed() bool {
	switch e.State {
	case v1alpha1.NodeStateHeld:
		return true
	case v1alpha1.NodeStateFailed, v1alpha1.NodeStatePending:
		return e.Present
	}
	return false
}

// Counts are all rules' counts.
func (f *Fleet) Counts() []Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Counts, 0, len(f.rules))
	for _, state := range f.rules {
		m := Material{}
		c := Counts{Rule: state.rule.Name, Mode: state.rule.Mode, OverBudget: len(state.limit.waiting),
			BootstrapOnly: state.rule.Spec.BootstrapOnly()}
		for _, e := range state.entries {
			m.count(e)
			if e.Reason == gate.ReasonOverrideHold || e.Reason == gate.ReasonOverrideRelease {
				c.Overridden++
			}
			if e.matches() && e.closed() {
				c.Closed++
			}
		}
		c.NodeCounts, c.Guarded = m.Counts, m.Guarded
		out = append(out, c)
	}
	return out
}

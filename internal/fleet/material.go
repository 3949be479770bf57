// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// maxNames is the largest number of names in the lists of a dry-run.
const maxNames = 10

// fewNames is the largest number of names in a message.
const fewNames = 5

// Material is the input of a rule's status.
type Material struct {
	// Rule is the version of the rule that the material is about.
	Rule *ruleset.Rule
	Sums
	// Pending is the number of nodes that were not evaluated by this version of the rule. What the material says about
	// such a node is from the version before.
	Pending int
	Limits
	// Causes are why nodes in service do not satisfy the rule.
	Causes []Cause
	// ReadyAt is when a node last became ready for the first time, of a rule that replaces nodes; zero if not known.
	ReadyAt time.Time
	// ReplaceProblem says why a node could not be handed over for replacement. The fleet does not know it.
	ReplaceProblem string
	// AdmissionProblem says why the rule does not taint nodes at admission. The fleet does not know it either.
	AdmissionProblem string
	// AdmittedByStatus says that the rule does taint nodes at admission: the webhook goes by the status of rules, because
	// there is no object with the rules for admission.
	AdmittedByStatus bool
	// KeptEndpoints is on how many nodes the pods stay ready in an outage. Nor does it know that.
	KeptEndpoints int
	// Applied, Failed and Evaluations are the bounded lists. Truncated reports whether they leave nodes out.
	Applied     []string
	Failed      []v1alpha1.NodeFailure
	Evaluations []v1alpha1.NodeEvaluation
	Truncated   bool
	// NamesToTaint and NamesToUntaint are some nodes that a dry-run would taint and untaint.
	NamesToTaint, NamesToUntaint []string

	entries, bytes int // of the bounded lists
}

// Material returns the input of a rule's status, or false for an unknown rule. It visits every node of the rule, so a
// caller that may not write the status yet must not call it.
func (f *Fleet) Material(rule types.UID) (Material, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.state(rule)
	if state == nil {
		return Material{}, false
	}
	m := Material{Rule: state.rule, Sums: state.sums(), Limits: state.limits(), ReadyAt: state.readyAt,
		Pending: len(state.pending)}
	var ranked [lastRank + 1][]int32
	why := causes{}
	for _, n := range f.byName {
		p := state.at(n)
		if p.outcome == none {
			continue
		}
		o := &state.outcomes[p.outcome]
		if o.cause != "" && p.released {
			why.add(o.cause, f.names[n])
		}
		if o.matches || o.State == v1alpha1.NodeStateFailed {
			r := rank(&o.Outcome)
			ranked[r] = append(ranked[r], n)
		}
	}
	m.Causes = why.sorted()
	for _, numbers := range ranked {
		for _, n := range numbers {
			m.list(n, state)
		}
	}
	return m, true
}

// lastRank is the last of the ranks.
const lastRank = 4

// rank puts failed and held nodes first, because readers of a status look for them.
func rank(o *Outcome) int {
	switch o.State {
	case v1alpha1.NodeStateFailed:
		return 0
	case v1alpha1.NodeStateHeld:
		return 1
	case v1alpha1.NodeStateExempt:
		return 2
	case v1alpha1.NodeStatePending:
		return 3
	}
	return lastRank
}

// list adds a node to the lists until they are full.
func (m *Material) list(n int32, state *ruleState) {
	name, p := state.nodes.names[n], &state.pairs[n]
	o := &state.outcomes[p.outcome]
	if o.WouldClaim && len(m.NamesToTaint) < maxNames {
		m.NamesToTaint = append(m.NamesToTaint, name)
	}
	if o.WouldRelease && len(m.NamesToUntaint) < maxNames {
		m.NamesToUntaint = append(m.NamesToUntaint, name)
	}
	if m.Truncated {
		return
	}
	evaluation, failure := describe(name, o, p.changed)
	entries, bytes := 1, len(name)+4
	if evaluation != nil {
		entries, bytes = entries+1, bytes+encodedSize(evaluation)
	}
	if failure != nil {
		entries, bytes = entries+1, bytes+encodedSize(failure)
	}
	if m.entries+entries > v1alpha1.MaxStatusNodes || m.bytes+bytes > v1alpha1.MaxStatusNodesBytes {
		m.Truncated = true
		return
	}
	m.entries, m.bytes = m.entries+entries, m.bytes+bytes
	m.Applied = append(m.Applied, name)
	if evaluation != nil {
		m.Evaluations = append(m.Evaluations, *evaluation)
	}
	if failure != nil {
		m.Failed = append(m.Failed, *failure)
	}
}

func describe(name string, e *stored, changed uint32) (*v1alpha1.NodeEvaluation, *v1alpha1.NodeFailure) {
	at := metav1.Unix(int64(changed), 0)
	if e.State == v1alpha1.NodeStateFailed {
		return nil, &v1alpha1.NodeFailure{NodeName: name, Reason: e.Reason, Message: e.Message, LastEvaluationTime: at}
	}
	if e.State == v1alpha1.NodeStatePending {
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

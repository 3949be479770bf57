// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// APIVersion is the apiVersion of all reports. Fields may be added to it.
const APIVersion = "cli.readiness.node.x-k8s.io/v1alpha1"

// The kinds of reports.
const (
	KindNodeExplanation = "NodeExplanation"
	KindSimulation      = "Simulation"
	KindRuleStatusList  = "RuleStatusList"
	KindLintReport      = "LintReport"
)

// NodeExplanation says of one node what holds it, and why.
type NodeExplanation struct {
	metav1.TypeMeta `json:",inline"`

	// node is the node's name.
	Node string `json:"node"`
	// at is when it was looked at.
	At metav1.Time `json:"at"`
	// summary says it in a sentence.
	Summary string `json:"summary"`
	// held is whether a rule's taint is on the node.
	Held bool `json:"held"`
	// heldBy are the rules whose taint is on the node.
	HeldBy []string `json:"heldBy,omitempty"`
	// createdAt is when the node was created.
	CreatedAt metav1.Time `json:"createdAt"`
	// ready is the status of the node's own condition Ready; empty, where nobody has reported it.
	Ready string `json:"ready,omitempty"`
	// unschedulable is whether the node is cordoned, terminating whether it is being deleted.
	Unschedulable bool `json:"unschedulable,omitempty"`
	Terminating   bool `json:"terminating,omitempty"`
	// override is the override annotation.
	Override *Override `json:"override,omitempty"`
	// next is the next thing that happens by the passage of time alone.
	Next *Deadline `json:"next,omitempty"`
	// rules are those that concern the node, held ones first.
	Rules []RuleExplanation `json:"rules"`
	// otherTaints are those that no rule has to do with.
	OtherTaints []OtherTaint `json:"otherTaints,omitempty"`
	// notSelectedBy are the rules that do not select the node.
	NotSelectedBy []NotSelected `json:"notSelectedBy,omitempty"`
	// operator is whether the operator runs, as far as that can be read.
	Operator *Operator `json:"operator,omitempty"`
	// unread says what could not be read, and why.
	Unread []string `json:"unread,omitempty"`
}

// Override is the override annotation of a node.
type Override struct {
	// value is the annotation's value.
	Value string `json:"value"`
	// action is Release or Hold; empty, where the value cannot be read or its time is over.
	Action string `json:"action,omitempty"`
	// until is when it ends.
	Until *metav1.Time `json:"until,omitempty"`
	// problem says why it has no effect.
	Problem string `json:"problem,omitempty"`
}

// RuleExplanation is how a node stands under a rule.
type RuleExplanation struct {
	// rule is the rule's name.
	Rule string `json:"rule"`
	// mode is Enforced, Suspended, DryRun, Frozen or Deleting.
	Mode string `json:"mode"`
	// problems are what makes the rule invalid.
	Problems []string `json:"problems,omitempty"`
	// state and reason are as in the rule's status, judged now. state is empty, where the rule does not select the node, or
	// its evidence could not be read.
	State  v1alpha1.NodeState `json:"state,omitempty"`
	Reason string             `json:"reason,omitempty"`
	// message says it in words.
	Message string `json:"message"`
	// taint is the rule's taint on the node.
	Taint *Taint `json:"taint,omitempty"`
	// waitsFor are what is missing.
	WaitsFor []string `json:"waitsFor,omitempty"`
	// policy is allOf or anyOf.
	Policy v1alpha1.ConditionPolicy `json:"policy"`
	// evidence is each piece of it.
	Evidence []Evidence `json:"evidence,omitempty"`
	// guard says how the rule's eviction guard stands; empty, where it guards nothing.
	Guard string `json:"guard,omitempty"`
	// deadlines are what happens by the passage of time alone, the next one first.
	Deadlines []Deadline `json:"deadlines,omitempty"`
	// releasedAt is when the node was first released, where the rule remembers that.
	ReleasedAt *metav1.Time `json:"releasedAt,omitempty"`
	// reported is what the operator has reported in the rule's status, where it names the node.
	Reported *Reported `json:"reported,omitempty"`
}

// Who put a taint on a node.
const (
	// ByRule: the rule did.
	ByRule = "Rule"
	// ByOther: somebody else, such as kubelet's --register-with-taints; the rule manages it.
	ByOther = "Adopted"
	// ByOtherRule: another rule that has the same taint.
	ByOtherRule = "OtherRule"
	// ByStranger: somebody else, and the rule has not adopted it.
	ByStranger = "Foreign"
	// ByUnknown: the rule manages it, and nobody remembers who put it there.
	ByUnknown = "RuleOrAdopted"
)

// Taint is a rule's taint on a node.
type Taint struct {
	// taint is key=value:effect; of a taint that is there, as it is.
	Taint string `json:"taint"`
	// present is whether it is on the node.
	Present bool `json:"present"`
	// by is who put it there: Rule, Adopted, OtherRule, Foreign or RuleOrAdopted.
	By string `json:"by,omitempty"`
	// since is since when the rule claims it.
	Since *metav1.Time `json:"since,omitempty"`
	// change is what the operator is about to do: Add or Remove.
	Change string `json:"change,omitempty"`
	// message says all this in words.
	Message string `json:"message"`
}

// Evidence is one piece of evidence.
type Evidence struct {
	// condition is the condition's type, requirement the requirement's name: one of both is given.
	Condition   string `json:"condition,omitempty"`
	Requirement string `json:"requirement,omitempty"`
	// satisfied is whether it holds; absent, where that could not be read.
	Satisfied *bool `json:"satisfied,omitempty"`
	// message says it in words.
	Message string `json:"message"`
	// cause is Reported, Missing, Default, Stale, BeforeBoot or Unread.
	Cause string `json:"cause"`
	// since is since when, where that is known.
	Since *metav1.Time `json:"since,omitempty"`
	// heartbeat is when it was last reported.
	Heartbeat *metav1.Time `json:"heartbeat,omitempty"`
	// changesAt is when it will turn by the passage of time alone, unless it is reported again.
	ChangesAt *metav1.Time `json:"changesAt,omitempty"`
}

// Deadline is something that happens by the passage of time alone.
type Deadline struct {
	// at is when.
	At metav1.Time `json:"at"`
	// rule is the rule that it is about; empty, where it is about the override.
	Rule string `json:"rule,omitempty"`
	// what happens then.
	What string `json:"what"`
}

// Reported is what the operator has reported of a node.
type Reported struct {
	State  v1alpha1.NodeState `json:"state"`
	Reason string             `json:"reason,omitempty"`
	// message is of a node that could not be written to.
	Message string `json:"message,omitempty"`
	// at is when that changed last.
	At metav1.Time `json:"at"`
}

// OtherTaint is a taint that no rule has to do with.
type OtherTaint struct {
	Taint string `json:"taint"`
	// by is who usually sets it, in words.
	By string `json:"by,omitempty"`
}

// NotSelected is a rule that does not select a node.
type NotSelected struct {
	Rule string `json:"rule"`
	// why is the first part of the selector that the node's labels do not meet.
	Why string `json:"why"`
}

// Operator is whether the operator runs.
type Operator struct {
	// leader is the replica that leads.
	Leader string `json:"leader,omitempty"`
	// renewedAt is when it said so last.
	RenewedAt metav1.Time `json:"renewedAt"`
	// leads is whether that is recent enough.
	Leads bool `json:"leads"`
}

// Simulation says what rules would do to nodes.
type Simulation struct {
	metav1.TypeMeta `json:",inline"`
	// at is the moment that it is judged at.
	At metav1.Time `json:"at"`
	// nodes is how many nodes there are.
	Nodes int `json:"nodes"`
	// rules are those of the files.
	Rules []RuleSimulation `json:"rules"`
	// unread says what could not be read, and why.
	Unread []string `json:"unread,omitempty"`
}

// What a simulation does with a rule.
const (
	ChangeCreated   = "Created"
	ChangeEdited    = "Edited"
	ChangeUnchanged = "Unchanged"
)

// RuleSimulation is what one rule would do.
type RuleSimulation struct {
	// rule is its name.
	Rule string `json:"rule"`
	// change is Created, Edited or Unchanged.
	Change string `json:"change"`
	// mode is Enforced, Suspended, DryRun or Frozen.
	Mode string `json:"mode"`
	// enforced is whether what is said holds for the rule as it is; else, were it enforced.
	Hypothetical bool `json:"hypothetical,omitempty"`
	// problems make the rule invalid: nothing else is said then.
	Problems []string `json:"problems,omitempty"`
	// taint is the rule's taint.
	Taint string `json:"taint,omitempty"`
	// totals count nodes.
	Totals Totals `json:"totals"`
	// nodes are those that the rule selects or takes its taint off.
	Nodes []NodeSimulation `json:"nodes,omitempty"`
}

// Totals count nodes.
type Totals struct {
	v1alpha1.NodeCounts `json:",inline"`
	// taintsAdded is how many nodes would get the taint, of which taintsAddedInService are in service now.
	TaintsAdded          int `json:"taintsAdded"`
	TaintsAddedInService int `json:"taintsAddedInService"`
	// taintsRemoved is how many would lose one.
	TaintsRemoved int `json:"taintsRemoved"`
	// overBudget is how many are not tainted only because of maxUnavailable.
	OverBudget int `json:"overBudget"`
	// neverReported is how many would be held for lack of any evidence.
	NeverReported int `json:"neverReported"`
	// podsEvicted is how many pods a taint of NoExecute would evict, where that could be read.
	PodsEvicted *int `json:"podsEvicted,omitempty"`
}

// What becomes of a taint in a simulation.
const (
	TaintAdded   = "Added"
	TaintRemoved = "Removed"
	TaintStays   = "Stays"
	TaintNone    = "None"
)

// NodeSimulation is what becomes of one node.
type NodeSimulation struct {
	Node string `json:"node"`
	// taint is Added, Removed, Stays or None.
	Taint string `json:"taint"`
	// state and reason are as in a rule's status.
	State  v1alpha1.NodeState `json:"state,omitempty"`
	Reason string             `json:"reason,omitempty"`
	// message says why.
	Message string `json:"message,omitempty"`
	// next is what would happen later by the passage of time alone.
	Next *metav1.Time `json:"next,omitempty"`
}

// RuleStatusList is how all rules stand, by the operator's reports.
type RuleStatusList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []RuleStatus `json:"items"`
	Operator        *Operator    `json:"operator,omitempty"`
}

// RuleStatus is how a rule stands.
type RuleStatus struct {
	Rule string `json:"rule"`
	// state is the reason of the rule's condition Ready: InForce, DryRun, Suspended, Invalid and so on; Unreported, where the
	// operator has not looked at this version of the rule yet.
	State string `json:"state"`
	// message says what is wrong with the rule.
	Message string `json:"message,omitempty"`
	// paused is since when kubectl nodegate pause has suspended it.
	Paused *metav1.Time `json:"paused,omitempty"`
	// mode is continuous or bootstrap-only.
	Mode  string `json:"mode,omitempty"`
	Taint string `json:"taint,omitempty"`
	// nodes are the counts; absent, where nothing is reported yet.
	Nodes *v1alpha1.NodeCounts `json:"nodes,omitempty"`
	// budgetExhausted is whether maxUnavailable keeps nodes open that are not ready.
	BudgetExhausted bool `json:"budgetExhausted,omitempty"`
	// heldNodes are names of some of the nodes that are held or failed.
	HeldNodes []string    `json:"heldNodes,omitempty"`
	CreatedAt metav1.Time `json:"createdAt"`
}

// LintReport is what there is to say about rules in files.
type LintReport struct {
	metav1.TypeMeta `json:",inline"`
	// rules is how many rules were looked at.
	Rules    int       `json:"rules"`
	Findings []Finding `json:"findings"`
}

// The severities of findings.
const (
	// SeverityError: the API server or the operator refuses the rule.
	SeverityError = "Error"
	// SeverityWarning: the rule is valid, and may not do what its author wants.
	SeverityWarning = "Warning"
)

// Finding is something about a rule.
type Finding struct {
	// source is the file, rule the rule's name.
	Source string `json:"source"`
	Rule   string `json:"rule"`
	// severity is Error or Warning.
	Severity string `json:"severity"`
	// code names the kind of finding.
	Code    string `json:"code"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

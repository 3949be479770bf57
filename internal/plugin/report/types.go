// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// APIVersion is the apiVersion of all reports. Later versions of the plugin may add fields.
const APIVersion = "cli.nodegate.io/v1alpha1"

// Report is an object that "-o json" prints and that has a text for people.
type Report interface {
	// Text returns the text for people.
	Text(Style) string
}

// Named is a report whose objects "-o name" prints as kubectl does.
type Named interface {
	// Names returns TYPE/NAME of each object.
	Names() []string
}

// Type returns the TypeMeta of a kind of report.
func Type(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: APIVersion, Kind: kind} }

// Time returns a time for a report, in whole seconds; nil for the zero time.
func Time(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}

// NodeExplanation explains what holds one node, and why.
type NodeExplanation struct {
	metav1.TypeMeta `json:",inline"`

	Node    string      `json:"node"`
	At      metav1.Time `json:"at"`      // when the plugin read the node
	Summary string      `json:"summary"` // the explanation in one sentence
	Held    bool        `json:"held"`    // whether a rule's taint is on the node
	HeldBy  []string    `json:"heldBy,omitempty"`

	CreatedAt     metav1.Time `json:"createdAt"`
	Ready         string      `json:"ready,omitempty"` // status of the condition Ready; empty if it is not reported
	Unschedulable bool        `json:"unschedulable,omitempty"`
	Terminating   bool        `json:"terminating,omitempty"`
	Maintenance   string      `json:"maintenance,omitempty"` // why the node is in maintenance, if it is

	Override      *Override         `json:"override,omitempty"`
	Next          *Deadline         `json:"next,omitempty"` // the next change by the passage of time alone
	Rules         []RuleExplanation `json:"rules"`          // rules that concern the node, those that hold it first
	OtherTaints   []OtherTaint      `json:"otherTaints,omitempty"`
	NotSelectedBy []NotSelected     `json:"notSelectedBy,omitempty"`
	Operator      *Operator         `json:"operator,omitempty"`
	Frozen        string            `json:"frozen,omitempty"` // why the operator changes nothing for any rule
	Unread        []string          `json:"unread,omitempty"` // what the plugin could not read, and why
}

// Override is the override annotation of a node.
type Override struct {
	Value   string       `json:"value"`
	Action  string       `json:"action,omitempty"` // Release or Hold; empty if the override has no effect
	Until   *metav1.Time `json:"until,omitempty"`
	Problem string       `json:"problem,omitempty"` // why it has no effect
}

// RuleExplanation explains the state of a node under a rule.
type RuleExplanation struct {
	Rule     string   `json:"rule"`
	Mode     string   `json:"mode"`               // Enforced, Suspended, DryRun, Frozen or Deleting
	Problems []string `json:"problems,omitempty"` // what makes the rule invalid
	// Unreported says that no operator has ever reported on the rule: nothing acts on it.
	Unreported bool `json:"unreported,omitempty"`

	// State and Reason are those of the rule's status, evaluated now. State is empty if the rule does not select the
	// node, or if the plugin cannot read the evidence.
	State   v1alpha1.NodeState `json:"state,omitempty"`
	Reason  string             `json:"reason,omitempty"`
	Message string             `json:"message"`

	Taint     *Taint                   `json:"taint,omitempty"`
	Health    *Health                  `json:"health,omitempty"`   // of a rule with health
	WaitsFor  []string                 `json:"waitsFor,omitempty"` // the evidence that is missing
	Policy    v1alpha1.ConditionPolicy `json:"policy"`
	Evidence  []Evidence               `json:"evidence,omitempty"`
	Published *Published               `json:"published,omitempty"` // the node condition that the rule publishes
	Guard     string                   `json:"guard,omitempty"`     // state of the eviction guard
	// Replacement says whether the node is handed over for replacement, or when it may be.
	Replacement string       `json:"replacement,omitempty"`
	Deadlines   []Deadline   `json:"deadlines,omitempty"`  // the next one first
	ReleasedAt  *metav1.Time `json:"releasedAt,omitempty"` // when the node, which was new, was first released
	New         bool         `json:"new,omitempty"`        // the node was never released
	Reported    *Reported    `json:"reported,omitempty"`   // what the rule's status says of the node
}

// notes are what else the rule does on the node, each a sentence.
func (r *RuleExplanation) notes() []string {
	return slices.DeleteFunc([]string{r.Guard, r.Replacement}, func(note string) bool { return note == "" })
}

// The values of Taint.By: who added a taint to a node.
const (
	ByRule      = "Rule"
	ByOther     = "Adopted"       // not a rule, such as kubelet's --register-with-taints; the rule manages it
	ByOtherRule = "OtherRule"     // another rule with the same taint
	ByForeign   = "Foreign"       // not a rule; the rule has not adopted it
	ByUnknown   = "RuleOrAdopted" // the rule manages it, and so do others with the same taint
)

// Taint is a rule's taint on a node.
type Taint struct {
	Taint   string       `json:"taint"` // key=value:effect, as on the node if it is there
	Present bool         `json:"present"`
	By      string       `json:"by,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`  // since when the rule claims it
	Change  string       `json:"change,omitempty"` // what the operator does next: Add, Remove or Adopt
	Message string       `json:"message"`
}

// Health is a rule's verdict for /health of a node.
type Health struct {
	Verdict v1alpha1.HealthVerdict `json:"verdict,omitempty"` // Ready or NotReady; empty if the record has none
	Change  v1alpha1.HealthVerdict `json:"change,omitempty"`  // what the operator makes of it next
}

// Published is the node condition that a rule publishes.
type Published struct {
	Type    string `json:"type"`
	Status  string `json:"status,omitempty"` // empty if the operator has not published it on the node
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"` // the condition's message, if the limits keep it from being False
	Problem string `json:"problem,omitempty"` // why the operator does not publish it on the node
}

// Evidence is one condition or one requirement of a rule.
type Evidence struct {
	Condition   string       `json:"condition,omitempty"`   // the condition's type, or
	Requirement string       `json:"requirement,omitempty"` // the requirement's name
	Satisfied   *bool        `json:"satisfied,omitempty"`   // absent if the plugin cannot read the evidence
	Message     string       `json:"message"`
	Cause       string       `json:"cause"` // Reported, Missing, Default, Stale, BeforeBoot or Unread
	Since       *metav1.Time `json:"since,omitempty"`
	Heartbeat   *metav1.Time `json:"heartbeat,omitempty"` // when it was last reported
	ChangesAt   *metav1.Time `json:"changesAt,omitempty"` // when it changes if it is not reported again
}

// Deadline is a change that happens by the passage of time alone.
type Deadline struct {
	At   metav1.Time `json:"at"`
	Rule string      `json:"rule,omitempty"` // empty for the end of the override
	What string      `json:"what"`
}

// Reported is what the operator reports of a node.
type Reported struct {
	State   v1alpha1.NodeState `json:"state"`
	Reason  string             `json:"reason,omitempty"`
	Message string             `json:"message,omitempty"` // of a node that the operator could not update
	At      metav1.Time        `json:"at"`                // when that changed last
}

// OtherTaint is a taint that belongs to no rule that selects the node.
type OtherTaint struct {
	Taint string `json:"taint"`
	By    string `json:"by,omitempty"` // who usually sets it
}

// NotSelected is a rule that does not select a node.
type NotSelected struct {
	Rule string `json:"rule"`
	Why  string `json:"why"` // the first part of the selector that the node's labels do not match
}

// Operator tells whether the operator runs, by its lease.
type Operator struct {
	Leader    string      `json:"leader,omitempty"`
	RenewedAt metav1.Time `json:"renewedAt"`
	Leads     bool        `json:"leads"` // whether the leader renewed its lease within the last minute
}

// Timeline is the start of a node: when each thing happened that it waited for.
type Timeline struct {
	metav1.TypeMeta `json:",inline"`

	Node      string         `json:"node"`
	At        metav1.Time    `json:"at"` // when the plugin read the node
	CreatedAt metav1.Time    `json:"createdAt"`
	Rules     []RuleTimeline `json:"rules"`
	FirstPod  Milestone      `json:"firstPod"`         // start of the first pod that is neither static nor of a DaemonSet
	Unread    []string       `json:"unread,omitempty"` // what the plugin could not read, and why
}

// RuleTimeline is the start of a node under one rule.
type RuleTimeline struct {
	Rule       string                   `json:"rule"`
	Mode       string                   `json:"mode"` // Enforced, Suspended, DryRun, Frozen or Deleting
	Policy     v1alpha1.ConditionPolicy `json:"policy"`
	Milestones []Milestone              `json:"milestones"`
}

// Milestone is something that a node waits for in its start.
type Milestone struct {
	// Event is condition/TYPE, requirement/NAME, evidence (all of it, or enough of it with anyOf), released or firstPod.
	Event   string       `json:"event"`
	State   string       `json:"state"` // Reached, Pending, Unknown, or None: no such pod; the rule is not enforced
	At      *metav1.Time `json:"at,omitempty"`
	Seconds *int64       `json:"seconds,omitempty"` // from the node's creation; 0 if it was before
}

// Simulation tells what rules would do to nodes.
type Simulation struct {
	metav1.TypeMeta `json:",inline"`

	At     metav1.Time      `json:"at"` // the time at which everything is evaluated
	Nodes  int              `json:"nodes"`
	Rules  []RuleSimulation `json:"rules"`
	Unread []string         `json:"unread,omitempty"` // what the plugin could not read, and why
}

// The values of RuleSimulation.Change.
const (
	ChangeCreated   = "Created"
	ChangeEdited    = "Edited"
	ChangeUnchanged = "Unchanged"
)

// RuleSimulation tells what one rule would do.
type RuleSimulation struct {
	Rule         string           `json:"rule"`
	Change       string           `json:"change"`                 // Created, Edited or Unchanged
	Mode         string           `json:"mode"`                   // Enforced, Suspended, DryRun or Frozen
	Hypothetical bool             `json:"hypothetical,omitempty"` // --enforce overrules dry-run or suspend
	Problems     []string         `json:"problems,omitempty"`     // what makes the rule invalid
	Taint        string           `json:"taint,omitempty"`
	Totals       Totals           `json:"totals"`
	Nodes        []NodeSimulation `json:"nodes,omitempty"` // nodes that the rule selects, or whose taint it removes
}

// Totals counts nodes.
type Totals struct {
	v1alpha1.NodeCounts `json:",inline"`

	TaintsAdded          int  `json:"taintsAdded"`
	TaintsAddedInService int  `json:"taintsAddedInService"` // of those, nodes that are in service now
	TaintsRemoved        int  `json:"taintsRemoved"`
	OverBudget           int  `json:"overBudget"`            // nodes that are untainted only because of maxUnavailable
	NeverReported        int  `json:"neverReported"`         // nodes that are held because evidence was never reported
	PodsEvicted          *int `json:"podsEvicted,omitempty"` // by NoExecute; absent if the plugin cannot read pods
}

// The values of NodeSimulation.Taint.
const (
	TaintAdded   = "Added"
	TaintRemoved = "Removed"
	TaintStays   = "Stays"
	TaintNone    = "None"
)

// NodeSimulation tells what happens to one node.
type NodeSimulation struct {
	Node    string             `json:"node"`
	Taint   string             `json:"taint"` // Added, Removed, Stays or None
	State   v1alpha1.NodeState `json:"state,omitempty"`
	Reason  string             `json:"reason,omitempty"`
	Message string             `json:"message,omitempty"`
	Next    *metav1.Time       `json:"next,omitempty"` // the next change by the passage of time alone
}

// RuleStatusList has the state of rules, as the operator reports it.
type RuleStatusList struct {
	metav1.TypeMeta `json:",inline"`

	Items    []RuleStatus `json:"items"`
	Operator *Operator    `json:"operator,omitempty"`
	// Frozen says why the operator changes nothing for any rule, and what to do.
	Frozen string `json:"frozen,omitempty"`
	// ManagedBy names what suggests that another party manages the CRD.
	ManagedBy []string `json:"managedBy,omitempty"`
}

// RuleStatus is the state of a rule.
type RuleStatus struct {
	Rule string `json:"rule"`
	// State is the reason of the rule's condition Ready: InForce, DryRun, Suspended, Invalid and so on; Unreported if the
	// operator has not evaluated this version of the rule yet.
	State           string               `json:"state"`
	Message         string               `json:"message,omitempty"` // what is wrong with the rule
	Paused          *metav1.Time         `json:"paused,omitempty"`  // when kubectl nodegate pause suspended it
	Mode            string               `json:"mode,omitempty"`    // continuous or bootstrap-only
	Taint           string               `json:"taint,omitempty"`
	Nodes           *v1alpha1.NodeCounts `json:"nodes,omitempty"` // absent if the operator has not reported yet
	BudgetExhausted bool                 `json:"budgetExhausted,omitempty"`
	HeldNodes       []string             `json:"heldNodes,omitempty"` // the first nodes that are held or failed
	CreatedAt       metav1.Time          `json:"createdAt"`
}

// LintReport has the findings about rules in files.
type LintReport struct {
	metav1.TypeMeta `json:",inline"`

	Rules    int       `json:"rules"`
	Findings []Finding `json:"findings"`
}

// The severities of findings.
const (
	SeverityError   = "Error"   // the API server refuses the rule, or the operator freezes it
	SeverityWarning = "Warning" // the rule is valid, but may not do what its author wants
	SeverityAdvice  = "Advice"  // what to set elsewhere in the cluster
)

// Finding is an error or a warning about a rule.
type Finding struct {
	Source   string `json:"source"` // the file
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Field    string `json:"field,omitempty"`
	Message  string `json:"message"`
}

// Versions has the versions of the plugin, the operator and the CRD.
type Versions struct {
	metav1.TypeMeta `json:",inline"`

	Plugin   string   `json:"plugin"`
	Commit   string   `json:"commit"`
	Operator []string `json:"operator,omitempty"` // the images of the operator's deployments
	CRD      string   `json:"crd,omitempty"`      // Same, Different or Missing, compared with the plugin's
	Skew     []string `json:"skew,omitempty"`     // differences, in words
	Unread   []string `json:"unread,omitempty"`
}

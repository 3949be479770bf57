// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/replace"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/text"
)

// Reasons of a rule's conditions.
const (
	ReasonInForce        = "InForce"
	ReasonDryRun         = "DryRun"
	ReasonSuspended      = "Suspended"
	ReasonDeleting       = "Deleting"
	ReasonNoNodes        = "NoNodes"
	ReasonAllReady       = "AllReady"
	ReasonNodesNotReady  = "NodesNotReady"
	ReasonNodesFailed    = "NodesFailed"
	ReasonSharedTaint    = "SharedTaint"
	ReasonConditionTaken = "ConditionTaken"
	ReasonNoConflict     = "NoConflict"
	ReasonMaxUnavailable = "MaxUnavailable"
	ReasonWithinBudget   = "WithinBudget"
	ReasonNoLimit        = "NoLimit"
	ReasonPodsGuarded    = "PodsGuarded"
	ReasonNothingToGuard = "NothingToGuard"
	ReasonNotInForce     = "NotInForce"
	ReasonPublished      = "Published"
	ReasonPublishFailed  = "PublishFailed"
	ReasonReplacing      = "WithinLimits"
	ReasonReplaceFailed  = "ReplacementFailed"
	ReasonExhausted      = "ReplacementsExhausted"
	ReasonNotAtAdmission = "NotAtAdmission"
)

// bad is the status of each condition that a warning reports, unless its reason is one of quiet.
var (
	bad = map[string]metav1.ConditionStatus{
		v1alpha1.ConditionReady:           metav1.ConditionFalse,
		v1alpha1.ConditionConflicted:      metav1.ConditionTrue,
		v1alpha1.ConditionBudgetExhausted: metav1.ConditionTrue,
		v1alpha1.ConditionNodesReady:      metav1.ConditionFalse,
		v1alpha1.ConditionGuarding:        metav1.ConditionFalse,
		v1alpha1.ConditionPublishing:      metav1.ConditionFalse,
		v1alpha1.ConditionReplacing:       metav1.ConditionFalse,
		v1alpha1.ConditionServed:          metav1.ConditionFalse,
	}
	quiet = []string{ReasonDryRun, ReasonSuspended, ReasonNodesNotReady, guard.ReasonNotLookedAt}
)

// Status returns a rule's status from the fleet's material, and from why its eviction guard may not work, if so.
// Entries that have not changed keep their times.
func Status(rule *v1alpha1.NodeReadinessRule, m *fleet.Material, problem *guard.Problem,
	now time.Time) v1alpha1.NodeReadinessRuleStatus {
	rule = upgraded(rule, now)
	s := v1alpha1.NodeReadinessRuleStatus{
		ObservedGeneration: rule.Generation,
		Nodes:              &m.Counts,
		Limit:              m.Places,
		AppliedNodes:       m.Applied,
		FailedNodes:        keepTimes(rule.Status.FailedNodes, m.Failed, failed),
		NodeEvaluations:    keepTimes(rule.Status.NodeEvaluations, m.Evaluations, evaluated),
		Truncated:          m.Truncated,
		Replacements:       replace.ReplacementsAt(rule.Status.Replacements, rule.Generation, m.ReadyAt, now),
	}
	s.Conditions = append(s.Conditions, rule.Status.Conditions...)
	generation := rule.Generation
	set := func(conditionType string, status bool, reason, format string, args ...any) {
		c := metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason,
			Message: text.Clip(fmt.Sprintf(format, args...), v1alpha1.MaxStatusMessage), ObservedGeneration: generation,
			LastTransitionTime: metav1.NewTime(now)}
		switch {
		case status:
			c.Status = metav1.ConditionTrue
		case reason == ReasonNoNodes: // a selector with a typing error must not be what kubectl wait waits for
			c.Status = metav1.ConditionUnknown
		}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	modeConditions(m, set)
	if m.Pending > 0 && rule.Status.ObservedGeneration > 0 { // some of what follows is about the version before
		generation = rule.Status.ObservedGeneration
		s.ObservedGeneration = generation
	}
	nodeConditions(m, set)
	generation = rule.Generation
	if rule.Spec.EvictionGuard == nil {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionGuarding)
	} else {
		guardCondition(m, problem, set)
	}
	if rule.Spec.Publish == nil && m.PublishProblem == "" {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionPublishing)
	} else {
		publishingCondition(m, set)
	}
	if t := m.Rule.Spec.Timeout; !t.Replaces() {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionReplacing)
	} else {
		a := replace.AllowanceOf(t.Replace, s.Replacements, rule.Generation, "", now)
		replacingCondition(m, a.Exhausted, set)
	}
	setInForce(&s, rule, m)
	return s
}

// upgraded returns the rule with a status that the CRD allows. A status of a former release may lack times that the CRD
// requires: the API server would refuse each write of it.
func upgraded(rule *v1alpha1.NodeReadinessRule, now time.Time) *v1alpha1.NodeReadinessRule {
	r := *rule
	if r.Status.InForce != nil && r.Status.InForce.StartTime.IsZero() {
		r.Status.InForce = nil
	}
	r.Status.Replacements = replace.ReplacementsAt(r.Status.Replacements, r.Generation, time.Time{}, now)
	return &r
}

// setInForce sets since when the rule is in force or in dry-run, and what a dry-run would do.
func setInForce(s *v1alpha1.NodeReadinessRuleStatus, rule *v1alpha1.NodeReadinessRule, m *fleet.Material) {
	switch r := m.Rule; {
	case r.Yields(): // it is put in force again when the other controller no longer manages the taint
	case r.Mode == ruleset.DryRun && m.Pending > 0 && rule.Status.ObservedGeneration == rule.Generation:
		s.DryRunResults = rule.Status.DryRunResults
	case r.Mode == ruleset.DryRun && m.Pending > 0: // what the version before would do is no answer
		s.DryRunResults = &v1alpha1.DryRunResults{StartTime: new(metav1.NewTime(r.InForceSince))}
	case r.Mode == ruleset.DryRun:
		s.DryRunResults = dryRun(m)
	case !r.Spec.DryRun && !r.InForceSince.IsZero(): // also while its evidence or another rule keeps it from acting
		s.InForce = &v1alpha1.InForce{StartTime: metav1.NewTime(r.InForceSince), SelectorHash: r.SelectorHash}
	case r.Mode == ruleset.Frozen && !r.Spec.Suspend && !r.Spec.DryRun:
		s.InForce = rule.Status.InForce // invalid, until it is fixed: what was exempt stays so
	}
}

type setter func(conditionType string, status bool, reason, format string, args ...any)

// modeConditions sets the conditions that say whether the rule is valid and acts.
func modeConditions(m *fleet.Material, set setter) {
	except := ""
	if m.Rule.Withdrawn() {
		except = ", except that dryRun removes its taints"
	}
	switch m.Rule.Mode {
	case ruleset.Enforced:
		set(v1alpha1.ConditionReady, true, ReasonInForce, "The rule is valid and in force%s", warning(m))
		switch {
		case m.Rule.Taint == nil:
			set(v1alpha1.ConditionEnforcing, true, ReasonInForce, "The rule has no taint. Its other effects are in force")
		case m.AdmissionProblem == "":
			set(v1alpha1.ConditionEnforcing, true, ReasonInForce, "Nodes that do not satisfy the rule are tainted")
		case m.AdmittedByStatus:
			set(v1alpha1.ConditionEnforcing, true, ReasonInForce, "Nodes that do not satisfy the rule are tainted. Webhooks go "+
				"by the status of rules, because the operator cannot write the rules for admission: %s", m.AdmissionProblem)
		default:
			set(v1alpha1.ConditionEnforcing, true, ReasonNotAtAdmission, "Nodes that do not satisfy the rule are tainted, but "+
				"shortly after their creation: %s", m.AdmissionProblem)
		}
	case ruleset.DryRun:
		set(v1alpha1.ConditionReady, false, ReasonDryRun, "The rule is valid and in dry-run: see status.dryRunResults for "+
			"what it would do%s", warning(m))
		set(v1alpha1.ConditionEnforcing, false, ReasonDryRun, "spec.dryRun is true")
	case ruleset.Suspended:
		why := "spec.suspend is true"
		if len(m.Rule.Problems) > 0 {
			why = m.Rule.Problems[0].String()
		}
		set(v1alpha1.ConditionReady, false, ReasonSuspended, "The operator changes nothing for this rule%s: %s", except, why)
		set(v1alpha1.ConditionEnforcing, false, ReasonSuspended, "%s", why)
	default:
		p := ruleset.Problem{Reason: evidence.ReasonInvalid, Message: "the rule is not in force"}
		if len(m.Rule.Problems) > 0 {
			p = m.Rule.Problems[0]
		}
		more := ""
		if n := len(m.Rule.Problems) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		set(v1alpha1.ConditionReady, false, p.Reason, "The operator changes nothing for this rule until this is fixed%s: "+
			"%s%s", except, p, more)
		set(v1alpha1.ConditionEnforcing, false, p.Reason, "The rule is frozen")
	}
}

// warningMark precedes the warning in the message of the condition Ready.
const warningMark = ". Warning: "

// warning returns the end of the message of the condition Ready of a rule that is in force or in dry-run.
func warning(m *fleet.Material) string {
	if m.Warning == "" {
		return ""
	}
	return warningMark + m.Warning
}

// warned returns the warning in a status, which may be cut off.
func warned(s *v1alpha1.NodeReadinessRuleStatus) string {
	if ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); ready != nil {
		_, text, _ := strings.Cut(ready.Message, warningMark)
		return text
	}
	return ""
}

// nodeConditions sets the conditions about the rule's nodes.
func nodeConditions(m *fleet.Material, set setter) {
	c := m.Counts
	switch {
	case c.Matched == 0:
		set(v1alpha1.ConditionNodesReady, false, ReasonNoNodes, "No node matches the rule's nodeSelector")
	case c.Ready == c.Matched:
		set(v1alpha1.ConditionNodesReady, true, ReasonAllReady, "All matching nodes are ready (%d)", c.Matched)
	default:
		reason := ReasonNodesNotReady
		if c.Failed > 0 {
			reason = ReasonNodesFailed
		}
		set(v1alpha1.ConditionNodesReady, false, reason, "%d of %d nodes are ready, %d held, %d exempt, %d failed, %d "+
			"pending", c.Ready, c.Matched, c.Held, c.Exempt, c.Failed, c.Pending)
	}
	conflicts(m, set)
	limitCondition(m, set)
}

// conflicts sets the condition that an older rule decides about a probe or a taint of this rule. A probe that does not
// run is reported first.
func conflicts(m *fleet.Material, set setter) {
	var reasons, words []string
	if m.Displaced > 0 {
		reasons = append(reasons, ReasonConditionTaken)
		what := "a probe of this rule does not run, because an older rule publishes its condition"
		if m.Rule.Spec.Publish != nil {
			what = "this rule does not publish a condition"
		}
		words = append(words, fmt.Sprintf("On %s %s: %s", text.Nodes(m.Displaced), what, m.DisplacedBy))
	}
	if m.Shared > 0 {
		reasons = append(reasons, ReasonSharedTaint)
		words = append(words, fmt.Sprintf("On %s another rule added the same taint before, and sets its value; the taint "+
			"stays while any of these rules needs it", text.Nodes(m.Shared)))
	}
	if len(reasons) == 0 {
		set(v1alpha1.ConditionConflicted, false, ReasonNoConflict,
			"No other rule has this rule's taint or publishes its conditions on the same node")
		return
	}
	set(v1alpha1.ConditionConflicted, true, reasons[0], "%s", strings.Join(words, ". "))
}

// guardCondition sets the condition that says whether the eviction guard works.
func guardCondition(m *fleet.Material, problem *guard.Problem, set setter) {
	switch {
	case m.Rule.Mode == ruleset.DryRun && !guard.ByNodeAlone(m.Rule):
		set(v1alpha1.ConditionGuarding, false, ReasonDryRun, "The rule is in dry-run, which does not rehearse its "+
			"eviction guard: only the leader evaluates its requirements, and records nothing in a dry-run")
	case m.Rule.Mode == ruleset.DryRun:
		set(v1alpha1.ConditionGuarding, false, ReasonDryRun, "The rule is in dry-run: it allows the evictions that it "+
			"would deny, with a warning")
	case m.Rule.Mode == ruleset.Suspended:
		set(v1alpha1.ConditionGuarding, false, ReasonSuspended, "The rule is suspended: on %s that it already guards, "+
			"it denies evictions until maxHoldSeconds have passed, and evicts no pods", text.Nodes(m.Guarded))
	case m.Rule.Mode != ruleset.Enforced:
		set(v1alpha1.ConditionGuarding, false, ReasonNotInForce,
			"The rule is frozen: on %s that it already guards, it denies evictions until maxHoldSeconds have passed",
			text.Nodes(m.Guarded))
	case problem != nil:
		set(v1alpha1.ConditionGuarding, false, problem.Reason, "%s", problem.Message)
	case m.Guarded+m.GuardEnded > 0:
		set(v1alpha1.ConditionGuarding, true, ReasonPodsGuarded,
			"The guard is active on %s, and has ended on %s, after maxHoldSeconds or by an override%s",
			text.Nodes(m.Guarded), text.Nodes(m.GuardEnded), keptEndpoints(m))
	default:
		set(v1alpha1.ConditionGuarding, true, ReasonNothingToGuard,
			"The guard becomes active on a node when its evidence no longer holds")
	}
}

// keptEndpoints says on how many nodes pods stay ready, if there are any.
func keptEndpoints(m *fleet.Material) string {
	if m.KeptEndpoints == 0 {
		return ""
	}
	return fmt.Sprintf("; pods of %s stay ready if they were, since this is an outage", text.Nodes(m.KeptEndpoints))
}

// publishingCondition sets the condition that says whether the rule's verdict is on nodes. A suspended rule changes
// what it has published, and a rule in dry-run removes it, so a failure is shown first.
func publishingCondition(m *fleet.Material, set setter) {
	switch {
	case m.PublishProblem != "":
		set(v1alpha1.ConditionPublishing, false, ReasonPublishFailed, "On %s the published condition could not be "+
			"written. If the permission is missing, set publishedConditions.enabled in the chart, or use "+
			"config/components/published-conditions: %s", text.Nodes(m.Unpublished), m.PublishProblem)
	case m.Rule.Mode == ruleset.DryRun:
		set(v1alpha1.ConditionPublishing, false, ReasonDryRun, "The rule is in dry-run: it publishes no condition")
	case m.Rule.Mode == ruleset.Suspended:
		set(v1alpha1.ConditionPublishing, false, ReasonSuspended, "The rule is suspended: it publishes no change, but False "+
			"becomes Unknown")
	case m.Rule.Mode != ruleset.Enforced:
		set(v1alpha1.ConditionPublishing, false, ReasonNotInForce, "The rule is frozen: it publishes no change")
	default:
		set(v1alpha1.ConditionPublishing, true, ReasonPublished, "Nodes have the condition that the rule publishes, unless "+
			"the condition Conflicted says otherwise")
	}
}

// replacingCondition sets the condition that says whether nodes that never become ready are handed over.
func replacingCondition(m *fleet.Material, exhausted bool, set setter) {
	switch {
	case m.Rule.Mode == ruleset.DryRun:
		set(v1alpha1.ConditionReplacing, false, ReasonDryRun, "The rule is in dry-run: it hands no node over")
	case m.Rule.Mode == ruleset.Suspended:
		set(v1alpha1.ConditionReplacing, false, ReasonSuspended, "The rule is suspended: it hands no node over")
	case m.Rule.Mode != ruleset.Enforced:
		set(v1alpha1.ConditionReplacing, false, ReasonNotInForce, "The rule is frozen: it hands no node over")
	case m.ReplaceProblem != "":
		set(v1alpha1.ConditionReplacing, false, ReasonReplaceFailed, "A node could not be handed over: %s", m.ReplaceProblem)
	case exhausted:
		set(v1alpha1.ConditionReplacing, false, ReasonExhausted, "The rule handed over %d nodes in a row, and no node "+
			"became ready: what nodes start with is probably broken, such as their image. It hands over no further node until "+
			"a node becomes ready, or the rule is edited", v1alpha1.MaxReplacementsInARow)
	default:
		set(v1alpha1.ConditionReplacing, true, ReasonReplacing,
			"Nodes that never become ready are handed over for replacement, at most %d in an hour",
			m.Rule.Spec.Timeout.Replace.PerHour())
	}
}

func dryRun(m *fleet.Material) *v1alpha1.DryRunResults {
	count := func(n int) *int32 {
		v := int32(min(n, 1<<30)) //nolint:gosec // bounded
		return &v
	}
	limit := ""
	if m.Rule.Limited() {
		limit = fmt.Sprintf("; %s %s would allow at most %d at a time", limitField(m), m.Rule.Limit, m.MaxUnavailable)
	}
	// Without this, a typing error in the evidence does not show where existingNodes exempts all nodes of today.
	spared := ""
	if n := int(m.Counts.Exempt) - m.ToTaint; n > 0 {
		spared = "; " + text.Plural(n, "more node is not ready, and would stay as it is",
			"more nodes are not ready, and would stay as they are")
	}
	return &v1alpha1.DryRunResults{
		StartTime:       new(metav1.NewTime(m.Rule.InForceSince)),
		AffectedNodes:   count(int(m.Counts.Matched)),
		TaintsToAdd:     count(m.ToTaint),
		TaintsToRemove:  count(m.ToUntaint),
		RiskyOperations: count(m.Risky),
		NodesToTaint:    m.NamesToTaint,
		NodesToUntaint:  m.NamesToUntaint,
		Summary: fmt.Sprintf("Of %s, %d would be tainted (%d of them because evidence is missing) and %d "+
			"would be untainted%s%s",
			text.Plural(int(m.Counts.Matched), "matching node", "matching nodes"), m.ToTaint, m.Risky, m.ToUntaint, spared,
			limit),
	}
}

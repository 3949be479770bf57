// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// # What the condition says that a rule publishes
//
//	True     the state is Ready
//	False    the state is Held, evidence that was reported says so, and at most maxUnavailable nodes are False
//	Unknown  otherwise: evidence is missing or stale, the node is exempt, or it is held although the evidence holds; in
//	         the last case a condition that is False stays False
//
// The state is that without an override. In the modes of a rule:
//
//	Enforced                        the condition is kept up to date
//	Suspended                       False becomes Unknown; nothing else changes
//	Frozen                          nothing changes
//	DryRun, Deleting, not matched,  the condition is removed
//	or another type
//
// The record has the type from before the condition is written until after it is gone, so that what a killed operator
// left is found. A condition of the same type is the operator's only while its reason has the prefix; of several rules
// with one type the oldest publishes it, and a probe comes before all rules.

const (
	// maxPublished is how long the message of a published condition may be, in bytes.
	maxPublished = 1024
	// messageInterval is the least time between two writes of a message alone: a minute, by times in whole seconds.
	messageInterval = time.Minute + time.Second
)

// Reasons of published conditions. An exempt node has the prefix and the reason of its state.
const (
	reasonPublishedReady    = v1alpha1.PublishedReasonPrefix + "Ready"
	reasonPublishedNotReady = v1alpha1.PublishedReasonPrefix + "NotReady"
	reasonPublishedUnknown  = v1alpha1.PublishedReasonPrefix + "EvidenceUnknown"
	reasonPublishedLimited  = v1alpha1.PublishedReasonPrefix + ReasonOverBudget
)

// Publication is what the condition that a rule publishes on a node says.
type Publication struct {
	Status          corev1.ConditionStatus
	Reason, Message string
	// stays is the status that is kept although it would become Unknown.
	stays corev1.ConditionStatus
	// recheckAt is when it may change by the passage of time alone; zero: it does not.
	recheckAt time.Time
}

// ConditionChange is a change of a condition that a rule publishes on a node.
type ConditionChange struct {
	// Rule is the rule; nil if it is gone.
	Rule *ruleset.Rule
	Type string
	// Remove: the condition is removed, and the rest is empty.
	Remove bool
	Publication
	// Began: the status is another one than before.
	Began bool

	since metav1.Time
}

// refuted reports whether a rule does not hold on a node because of evidence that was reported.
func refuted(d *Decision, v *readiness.Verdict) bool {
	return d.State == v1alpha1.NodeStateHeld && !v.Ready && v.Refuted(d.Rule.Spec.AnyOf())
}

// publication returns what the condition says that the rule publishes on the node, before the limit is asked; nil,
// where it publishes none, or must not change it.
func (in Input) publication(d *Decision) *Publication {
	if in.Rule.Spec.Publish == nil || in.Rule.Mode != ruleset.Enforced || !in.State.Matches {
		return nil
	}
	p := &Publication{Status: corev1.ConditionUnknown, recheckAt: d.RecheckAt}
	if in.Override.Action != OverrideNone {
		in.Override = Override{}
		plain := Decide(in)
		d, p.recheckAt = &plain, plain.RecheckAt
	}
	why := in.Verdict.Blocking()
	switch {
	case d.State == v1alpha1.NodeStateReady:
		p.Status, p.Reason, why = corev1.ConditionTrue, reasonPublishedReady, "the node is ready"
	case d.State != v1alpha1.NodeStateHeld:
		p.Reason, why = v1alpha1.PublishedReasonPrefix+d.Reason, "the node is exempt: "+why
	case in.Verdict.Ready:
		p.Reason, p.stays = v1alpha1.PublishedReasonPrefix+d.Reason, corev1.ConditionFalse
		why = "the node is held: all evidence holds, but not for long enough yet"
	case refuted(d, &in.Verdict):
		p.Status, p.Reason = corev1.ConditionFalse, reasonPublishedNotReady
	default:
		p.Reason, why = reasonPublishedUnknown, "evidence is missing or stale: "+why
	}
	p.Message = clip(fmt.Sprintf("rule %s: %s", in.Rule.Name, why))
	return p
}

func clip(message string) string {
	if len(message) <= maxPublished {
		return message
	}
	return strings.ToValidUTF8(message[:maxPublished-3], "") + "..."
}

// published is the condition of a type on a node, nil if there is none.
func published(node *corev1.Node, conditionType string) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if string(node.Status.Conditions[i].Type) == conditionType {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// Published returns the condition of a type on a node if the operator has published it, else nil.
func Published(node *corev1.Node, conditionType string) *corev1.NodeCondition {
	if c := published(node, conditionType); c != nil && strings.HasPrefix(c.Reason, v1alpha1.PublishedReasonPrefix) {
		return c
	}
	return nil
}

func markedFalse(rule *ruleset.Rule, node *corev1.Node) bool {
	if rule.Spec.Publish == nil {
		return false
	}
	c := Published(node, rule.Spec.Publish.ConditionType)
	return c != nil && c.Status == corev1.ConditionFalse
}

// publisher changes the conditions that rules publish on one node.
type publisher struct {
	*NodeInput
	out       *Outcome
	displaced map[string]string
	taken     map[string]bool // the types that a rule publishes, or keeps
}

// publish fills in the changes of conditions, and what the records say of them.
func (in *NodeInput) publish(out *Outcome) {
	owned := len(in.Orphans) > 0
	for i := range out.Decisions {
		d := &out.Decisions[i]
		owned = owned || d.Publication != nil || d.Was.Record.Published != ""
	}
	if !owned {
		return
	}
	p := &publisher{NodeInput: in, out: out, displaced: in.Rules.Displaced(in.Node.Labels), taken: map[string]bool{}}
	wanted := make([]string, len(out.Decisions))
	for i := range out.Decisions {
		wanted[i] = p.wanted(&out.Decisions[i])
		p.taken[wanted[i]] = true
	}
	for i := range out.Decisions {
		p.decide(&out.Decisions[i], wanted[i])
	}
	for _, t := range in.Orphans {
		if !p.taken[t] && Published(in.Node, t) != nil {
			out.Conditions = append(out.Conditions, ConditionChange{Type: t, Remove: true})
		}
	}
}

// wanted is the type of the condition that a rule publishes on the node, or keeps as it is.
func (p *publisher) wanted(d *Decision) string {
	if d.Rule.Inert() {
		return d.Was.Record.Published
	}
	if d.Publication == nil {
		return ""
	}
	t := d.Rule.Spec.Publish.ConditionType
	if d.Unpublished = p.displaced[d.Rule.Name]; d.Unpublished != "" {
		return ""
	}
	if c := published(p.Node, t); c != nil && Published(p.Node, t) == nil {
		d.Unpublished = fmt.Sprintf("condition %s is published by another controller, with reason %q", t, c.Reason)
		return ""
	}
	return t
}

// decide decides about the condition of one rule.
func (p *publisher) decide(d *Decision, wanted string) {
	was := d.Was.Record.Published
	c := Published(p.Node, was)
	switch {
	case d.Rule.Mode == ruleset.Suspended:
		d.setPublished(was)
		if c != nil && c.Status == corev1.ConditionFalse {
			p.change(d, was, c, &Publication{Status: corev1.ConditionUnknown,
				Reason:  v1alpha1.PublishedReasonPrefix + ReasonSuspended,
				Message: fmt.Sprintf("rule %s: the rule is suspended", d.Rule.Name)})
		}
	case d.Rule.Inert():
	case was != "" && was != wanted && c != nil && !p.taken[was]:
		d.setPublished(was)
		p.out.Conditions = append(p.out.Conditions, ConditionChange{Rule: d.Rule, Type: was, Remove: true})
	case !p.Node.DeletionTimestamp.IsZero():
		d.setPublished(was)
	default:
		d.setPublished(wanted)
		if wanted != "" {
			p.update(d, wanted)
		}
	}
}

// update brings the condition of an enforced rule up to date.
func (p *publisher) update(d *Decision, conditionType string) {
	c, to := Published(p.Node, conditionType), *d.Publication
	p.out.recheck(to.recheckAt)
	marked := c != nil && c.Status == corev1.ConditionFalse
	switch {
	case marked && to.stays == corev1.ConditionFalse:
		to.Status = corev1.ConditionFalse
	case to.Status == corev1.ConditionFalse && !marked && p.MayMark != nil && d.Rule.Limited() && !p.MayMark(d.Rule):
		to.Status, to.Reason = corev1.ConditionUnknown, reasonPublishedLimited
		to.Message = clip(fmt.Sprintf("rule %s: as many nodes as maxUnavailable allows are already False: %s", d.Rule.Name,
			strings.TrimPrefix(to.Message, "rule "+d.Rule.Name+": ")))
	}
	if c != nil && c.Status == to.Status && c.Reason == to.Reason {
		due := c.LastHeartbeatTime.Add(messageInterval)
		switch {
		case c.Message == to.Message:
			return
		case p.Now.Before(due):
			p.out.recheck(due)
			return
		}
	}
	p.change(d, conditionType, c, &to)
}

func (p *publisher) change(d *Decision, conditionType string, before *corev1.NodeCondition, to *Publication) {
	change := ConditionChange{Rule: d.Rule, Type: conditionType, Publication: *to, since: metav1.NewTime(p.Now)}
	change.Began = before == nil || before.Status != to.Status
	if !change.Began {
		change.since = before.LastTransitionTime
	}
	p.out.Conditions = append(p.out.Conditions, change)
}

// setPublished makes the record say which condition the rule publishes on the node.
func (d *Decision) setPublished(conditionType string) {
	if d.Frozen {
		return
	}
	if d.Record.Published = conditionType; d.Record.Empty() {
		d.Record = Record{}
		return
	}
	d.Record.Rule = d.Rule.Name
}

// ConditionsPatch returns the strategic merge patch of a node's status that makes the changes. The API server refuses
// it if the node was written since it was read: another controller may have reported a condition of the same type, or
// the next leader may have removed the record that names it.
func ConditionsPatch(node *corev1.Node, changes []ConditionChange, now time.Time) ([]byte, error) {
	conditions := make([]map[string]any, 0, len(changes))
	for i := range changes {
		c := &changes[i]
		if c.Remove {
			conditions = append(conditions, map[string]any{"$patch": "delete", "type": c.Type})
			continue
		}
		conditions = append(conditions, map[string]any{
			"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message,
			"lastTransitionTime": c.since, "lastHeartbeatTime": metav1.NewTime(now),
		})
	}
	out, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return nil, fmt.Errorf("creating a patch of node conditions: %w", err)
	}
	return out, nil
}

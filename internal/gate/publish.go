// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
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
//	Suspended                       False becomes Unknown, unless another rule publishes it now; nothing else changes
//	Frozen                          nothing changes, unless spec.dryRun is set
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

// publication is the content of the condition that a rule publishes on a node.
type publication struct {
	// wanted is the type of the condition that the rule publishes, or keeps as it is. Empty means none.
	wanted string
	status corev1.ConditionStatus
	reason string
	// why is the message, without the rule's name. If blocking is set, the evidence that blocks the node follows.
	why      string
	blocking bool
	// staysFalse says that a condition that is False stays so.
	staysFalse bool
	// recheckAt is when the content may change even if nothing else does. Zero means never.
	recheckAt time.Time
}

// ConditionChange is a change of a condition that a rule publishes on a node.
type ConditionChange struct {
	// Rule is the rule, or nil if it is deleted.
	Rule *ruleset.Rule
	Type string
	// Remove says that the condition is removed. Then the other fields are empty.
	Remove          bool
	Status          corev1.ConditionStatus
	Reason, Message string
	// Began says that the status changes.
	Began bool

	since metav1.Time
}

// refuted reports whether a rule does not hold on a node because of evidence that was reported.
func refuted(d *Decision, v *readiness.Verdict) bool {
	return d.State == v1alpha1.NodeStateHeld && !v.Ready && v.Refuted(d.Rule.Spec.AnyOf())
}

// publication returns the content of the condition that the rule publishes on the node by a decision without an
// override, before the limit is asked. It is empty if the rule publishes none, or must not change it.
func (in Input) publication(d *Decision) publication {
	if in.Rule.Spec.Publish == nil || in.Rule.Mode != ruleset.Enforced || !in.State.Matches {
		return publication{}
	}
	p := publication{status: corev1.ConditionUnknown, blocking: true, recheckAt: d.RecheckAt}
	switch {
	case d.State == v1alpha1.NodeStateReady:
		p.status, p.reason, p.why, p.blocking = corev1.ConditionTrue, reasonPublishedReady, "the node is ready", false
	case d.State != v1alpha1.NodeStateHeld:
		p.reason, p.why = v1alpha1.PublishedReasonPrefix+d.Reason, "the node is exempt: "
	case in.Verdict.Ready:
		p.reason, p.staysFalse = v1alpha1.PublishedReasonPrefix+d.Reason, true
		p.why, p.blocking = "the node is held: all evidence holds, but not for long enough yet", false
	case refuted(d, &in.Verdict):
		p.status, p.reason = corev1.ConditionFalse, reasonPublishedNotReady
	default:
		p.reason, p.why = reasonPublishedUnknown, "evidence is missing or stale: "
	}
	return p
}

// message appends the message of a condition to a buffer.
func (p *publication) message(b []byte, rule string, v *readiness.Verdict) []byte {
	start := len(b)
	b = append(append(append(append(b, "rule "...), rule...), ": "...), p.why...)
	if p.blocking {
		b = append(b, v.Blocking()...)
	}
	if len(b)-start > maxPublished {
		return append(bytes.ToValidUTF8(b[start:start+maxPublished-3], nil), "..."...)
	}
	return b
}

// Published returns the condition of a type on a node if the operator has published it, else nil.
func Published(node *corev1.Node, conditionType string) *corev1.NodeCondition {
	if c := condition.Find(node, conditionType); c != nil && strings.HasPrefix(c.Reason, v1alpha1.PublishedReasonPrefix) {
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
	out      *Outcome
	contents []publication // of the decisions
	buffer   []byte        // for messages
}

// publish fills in the changes of conditions, and what the records say of them.
func (in *NodeInput) publish(out *Outcome, contents []publication) {
	if len(in.Orphans) == 0 && !in.Rules.Publishes() && !slices.ContainsFunc(out.Decisions,
		func(d Decision) bool { return d.Was.Record.Published != "" }) {
		return
	}
	if contents == nil {
		contents = make([]publication, len(out.Decisions))
	}
	p := &publisher{NodeInput: in, out: out, contents: contents}
	for i := range out.Decisions {
		contents[i].wanted = p.wanted(&out.Decisions[i], contents[i].status != "")
	}
	for i := range out.Decisions {
		p.decide(i)
	}
	for _, t := range in.Orphans {
		if !p.taken(t) && Published(in.Node, t) != nil {
			out.Conditions = append(out.Conditions, ConditionChange{Type: t, Remove: true})
		}
	}
}

// taken reports whether a rule publishes or keeps a condition.
func (p *publisher) taken(conditionType string) bool {
	return slices.ContainsFunc(p.contents, func(c publication) bool { return c.wanted == conditionType })
}

// updated reports whether a rule that is in force publishes a condition.
func (p *publisher) updated(conditionType string) bool {
	for i := range p.contents {
		if p.contents[i].wanted == conditionType && !p.out.Decisions[i].Rule.Inert() {
			return true
		}
	}
	return false
}

// keeps reports whether the conditions of a rule stay as they are.
func keeps(rule *ruleset.Rule) bool { return rule.Inert() && !rule.Withdrawn() }

// wanted returns the type of the condition that a rule publishes on the node, or keeps as it is.
func (p *publisher) wanted(d *Decision, publishes bool) string {
	if keeps(d.Rule) {
		return d.Was.Record.Published
	}
	if !publishes || d.Unpublished != "" {
		return ""
	}
	t := d.Rule.Spec.Publish.ConditionType
	if c := condition.Find(p.Node, t); c != nil && Published(p.Node, t) == nil {
		d.Unpublished = fmt.Sprintf("condition %s is published by another controller, with reason %.64q", t, c.Reason)
		return ""
	}
	return t
}

// decide makes the decision about the condition of one rule.
func (p *publisher) decide(i int) {
	d, wanted := &p.out.Decisions[i], p.contents[i].wanted
	was := d.Was.Record.Published
	c := Published(p.Node, was)
	switch {
	case d.Rule.Mode == ruleset.Suspended && keeps(d.Rule):
		d.setPublished(was)
		if c != nil && c.Status == corev1.ConditionFalse && !p.updated(was) {
			p.change(i, was, c, &publication{status: corev1.ConditionUnknown,
				reason: v1alpha1.PublishedReasonPrefix + ReasonSuspended, why: "the rule is suspended"})
		}
	case keeps(d.Rule):
	case was != "" && was != wanted && c != nil && !p.taken(was):
		d.setPublished(was)
		p.out.Conditions = append(p.out.Conditions, ConditionChange{Rule: d.Rule, Type: was, Remove: true})
	case !p.Node.DeletionTimestamp.IsZero():
		d.setPublished(was)
	default:
		d.setPublished(wanted)
		if wanted != "" {
			p.update(i)
		}
	}
}

// update brings the condition of an enforced rule up to date.
func (p *publisher) update(i int) {
	rule, to := p.out.Decisions[i].Rule, p.contents[i]
	c := Published(p.Node, to.wanted)
	p.out.recheck(to.recheckAt)
	isFalse := c != nil && c.Status == corev1.ConditionFalse
	switch {
	case isFalse && to.staysFalse:
		to.status = corev1.ConditionFalse
	case to.status == corev1.ConditionFalse && !isFalse && p.MayMark != nil && rule.Limited() && !p.MayMark(rule):
		to.status, to.reason = corev1.ConditionUnknown, reasonPublishedLimited
		to.why = "as many nodes as maxUnavailable allows are already False: "
	}
	p.change(i, to.wanted, c, &to)
}

// change adds a change of a condition, unless it would change nothing. The message alone changes once a minute at most.
func (p *publisher) change(i int, conditionType string, before *corev1.NodeCondition, to *publication) {
	rule := p.out.Decisions[i].Rule
	p.buffer = to.message(p.buffer[:0], rule.Name, &p.out.Decisions[i].Verdict)
	if before != nil && before.Status == to.status && before.Reason == to.reason {
		due := before.LastHeartbeatTime.Add(messageInterval)
		switch {
		case before.Message == string(p.buffer):
			return
		case p.Now.Before(due):
			p.out.recheck(due)
			return
		}
	}
	change := ConditionChange{Rule: rule, Type: conditionType, Status: to.status, Reason: to.reason,
		Message: string(p.buffer), since: metav1.NewTime(p.Now), Began: before == nil || before.Status != to.status}
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
	r := d.Record
	r.Published = conditionType
	d.setRecord(r)
}

// SameConditions reports whether two versions of a node have the same conditions of the types that change. If not,
// another controller may have reported a condition of its own between them.
func SameConditions(changes []ConditionChange, a, b *corev1.Node) bool {
	return !slices.ContainsFunc(changes, func(c ConditionChange) bool {
		return !equality.Semantic.DeepEqual(condition.Find(a, c.Type), condition.Find(b, c.Type))
	})
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

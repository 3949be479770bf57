// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
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
// with one type the oldest in force publishes it, and a probe comes before all rules.

const (
	// maxPublished is how long the message of a published condition may be, in bytes.
	maxPublished = 1024
	// messageInterval is the least time between two writes of a message alone: a minute, by times in whole seconds.
	messageInterval = time.Minute + time.Second
)

// Reasons of published conditions. An exempt node has the prefix and the reason of its state; package condition knows
// those that say that nothing is known.
const (
	reasonPublishedReady    = v1alpha1.PublishedReasonPrefix + "Ready"
	reasonPublishedNotReady = v1alpha1.PublishedReasonPrefix + "NotReady"
	reasonPublishedMissing  = v1alpha1.PublishedReasonPrefix + state.ReasonEvidenceMissing
	reasonPublishedLimited  = v1alpha1.PublishedReasonPrefix + state.ReasonOverBudget
)

// Content is the content of the condition that a rule publishes on a node.
type Content struct {
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

// Refuted reports whether a node is not ready because of evidence that was reported.
func Refuted(d *state.Decision) bool {
	return d.State == v1alpha1.NodeStateHeld && !d.Verdict.Ready && d.Verdict.Refuted(d.Rule.Spec.AnyOf())
}

// ContentOf returns the content of the condition that a rule publishes on the node by its plain decision, which knows
// no override, before the limit is asked. It is empty if the rule publishes none, or must not change it.
func ContentOf(d *state.Decision) Content {
	if d.Rule.Spec.Publish == nil || d.Rule.Mode != ruleset.Enforced || !d.Was.Matches {
		return Content{}
	}
	c := Content{status: corev1.ConditionUnknown, blocking: true, recheckAt: d.RecheckAt}
	switch {
	case d.State == v1alpha1.NodeStateReady:
		c.status, c.reason, c.why, c.blocking = corev1.ConditionTrue, reasonPublishedReady, "the node is ready", false
	case d.State != v1alpha1.NodeStateHeld:
		c.reason, c.why = v1alpha1.PublishedReasonPrefix+d.Reason, "the node is exempt: "
		if d.Reason == state.ReasonUnknown && d.Verdict.Booting { // rules that require it wait for the same
			c.reason = v1alpha1.PublishedReasonPrefix + state.ReasonBooting
		}
	case d.Verdict.Ready:
		c.reason, c.staysFalse = v1alpha1.PublishedReasonPrefix+d.Reason, true
		c.why, c.blocking = "the node is held: all evidence holds, but not for long enough yet", false
	case Refuted(d):
		c.status, c.reason = corev1.ConditionFalse, reasonPublishedNotReady
	default:
		c.reason, c.why = reasonPublishedMissing, "evidence is missing or stale: "
	}
	return c
}

// message appends the message of a condition to a buffer.
func (p *Content) message(b []byte, rule string, v *readiness.Verdict) []byte {
	start := len(b)
	b = append(append(append(append(b, nodeview.PublishedOf...), rule...), ": "...), p.why...)
	if p.blocking {
		b = append(b, v.Blocking()...)
	}
	if len(b)-start > maxPublished {
		return append(bytes.ToValidUTF8(b[start:start+maxPublished-3], nil), "..."...)
	}
	return b
}

// Input is the input of Decide.
type Input struct {
	Node *corev1.Node
	// Decisions are those of all rules that concern the node. Decide makes their records say which condition is published.
	Decisions []state.Decision
	// Contents are by the plain decisions, in the same order. They are nil if no rule publishes a condition.
	Contents []Content
	// Orphans are the types of the conditions that deleted rules published.
	Orphans []string
	// MayMark asks the limits whether the published condition may become False on the node. It returns why not, or "". nil
	// means that it may.
	MayMark func(*ruleset.Rule, limit.Request) (why string)
	Now     time.Time
}

// publisher changes the conditions that rules publish on one node.
type publisher struct {
	Input
	changes   []ConditionChange
	recheckAt time.Time
	buffer    []byte // for messages
}

// Decide returns the changes of conditions, and when to decide again although nothing changes; zero means never.
func Decide(in Input) (changes []ConditionChange, recheckAt time.Time) {
	if len(in.Orphans) == 0 && in.Contents == nil && !slices.ContainsFunc(in.Decisions,
		func(d state.Decision) bool { return d.Was.Record.Published != "" }) {
		return nil, time.Time{}
	}
	if in.Contents == nil {
		in.Contents = make([]Content, len(in.Decisions))
	}
	p := &publisher{Input: in}
	for i := range p.Decisions {
		p.Contents[i].wanted = p.wanted(&p.Decisions[i], p.Contents[i].status != "")
	}
	for i := range p.Decisions {
		p.decide(i)
	}
	for _, t := range p.Orphans {
		if !p.taken(t) && nodeview.Published(p.Node, t) != nil {
			p.changes = append(p.changes, ConditionChange{Type: t, Remove: true})
		}
	}
	return p.changes, p.recheckAt
}

// recheck requests another decision at a time, unless the time is zero.
func (p *publisher) recheck(at time.Time) {
	if !at.IsZero() && (p.recheckAt.IsZero() || at.Before(p.recheckAt)) {
		p.recheckAt = at
	}
}

// taken reports whether a rule publishes or keeps a condition.
func (p *publisher) taken(conditionType string) bool {
	return slices.ContainsFunc(p.Contents, func(c Content) bool { return c.wanted == conditionType })
}

// updated reports whether a rule that is in force publishes a condition.
func (p *publisher) updated(conditionType string) bool {
	for i := range p.Contents {
		if p.Contents[i].wanted == conditionType && !p.Decisions[i].Rule.Inert() {
			return true
		}
	}
	return false
}

// keeps reports whether the conditions of a rule stay as they are.
func keeps(rule *ruleset.Rule) bool { return rule.Inert() && !rule.Withdrawn() }

// wanted returns the type of the condition that a rule publishes on the node, or keeps as it is.
func (p *publisher) wanted(d *state.Decision, publishes bool) string {
	if keeps(d.Rule) {
		return d.Was.Record.Published
	}
	if !publishes || d.Unpublished != "" {
		return ""
	}
	t := d.Rule.Spec.Publish.ConditionType
	if !p.Node.DeletionTimestamp.IsZero() && (d.Was.Record.Published != t || nodeview.Published(p.Node, t) == nil) {
		return "" // a terminating node gets nothing new
	}
	if c := condition.Find(p.Node, t); c != nil && nodeview.Published(p.Node, t) == nil {
		d.Unpublished = fmt.Sprintf("condition %s is published by another controller, with reason %.64q", t, c.Reason)
		return ""
	}
	return t
}

// decide makes the decision about the condition of one rule.
func (p *publisher) decide(i int) {
	d, wanted := &p.Decisions[i], p.Contents[i].wanted
	was := d.Was.Record.Published
	c := nodeview.Published(p.Node, was)
	switch {
	case d.Rule.Mode == ruleset.Suspended && keeps(d.Rule):
		d.SetPublished(was)
		if c != nil && c.Status == corev1.ConditionFalse && !p.updated(was) {
			p.change(i, was, c, &Content{status: corev1.ConditionUnknown,
				reason: v1alpha1.PublishedReasonPrefix + state.ReasonSuspended, why: "the rule is suspended"})
		}
	case keeps(d.Rule):
	case was != "" && was != wanted && c != nil && !p.taken(was):
		d.SetPublished(was)
		p.changes = append(p.changes, ConditionChange{Rule: d.Rule, Type: was, Remove: true})
	default:
		d.SetPublished(wanted)
		if wanted != "" && p.Node.DeletionTimestamp.IsZero() {
			p.update(i)
		}
	}
}

// update brings the condition of an enforced rule up to date.
func (p *publisher) update(i int) {
	rule, to := p.Decisions[i].Rule, p.Contents[i]
	c := nodeview.Published(p.Node, to.wanted)
	p.recheck(to.recheckAt)
	isFalse := p.Decisions[i].Was.MarkedFalse // one that another rule has made False is not within this rule's limit
	switch {
	case isFalse && to.staysFalse:
		to.status = corev1.ConditionFalse
	case to.status == corev1.ConditionFalse && !isFalse && p.MayMark != nil && rule.Limited():
		d := &p.Decisions[i]
		ask := limit.Request{Use: limit.Marks, Since: d.Verdict.Changed, Domains: d.Was.Domains}
		if why := p.MayMark(rule, ask); why != "" {
			to.status, to.reason, to.why = corev1.ConditionUnknown, reasonPublishedLimited, why+": "
			d.Unmarked = true
		}
	}
	p.change(i, to.wanted, c, &to)
}

// change adds a change of a condition, unless it would change nothing. The message alone changes once a minute at most,
// but at once if it names another rule: it says whose limit counts the condition.
func (p *publisher) change(i int, conditionType string, before *corev1.NodeCondition, to *Content) {
	rule := p.Decisions[i].Rule
	p.buffer = to.message(p.buffer[:0], rule.Name, &p.Decisions[i].Verdict)
	if before != nil && before.Status == to.status && before.Reason == to.reason {
		due := before.LastHeartbeatTime.Add(messageInterval)
		switch {
		case before.Message == string(p.buffer):
			return
		case nodeview.OfAnother(before, rule.Name):
		case p.Now.Before(due) && !before.LastHeartbeatTime.After(p.Now): // else a clock was ahead
			p.recheck(due)
			return
		}
	}
	change := ConditionChange{Rule: rule, Type: conditionType, Status: to.status, Reason: to.reason,
		Message: string(p.buffer), since: metav1.NewTime(p.Now), Began: before == nil || before.Status != to.status}
	if !change.Began {
		change.since = before.LastTransitionTime
	}
	p.changes = append(p.changes, change)
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

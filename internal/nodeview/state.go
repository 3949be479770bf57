// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeview

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// ServiceAge is the age from which a node may be in service when a rule begins to match it.
const ServiceAge = 10 * time.Minute

// State is the state of a node under a rule, read from the node alone, without evidence.
type State struct {
	// Matches reports whether the rule selects the node.
	Matches bool
	// Record is the rule's record on the node. HasRecord reports whether the node has the annotation, valid or not.
	Record    Record
	HasRecord bool
	// Claimed reports whether the rule holds the node. Its record has the claim of a taint or, for a rule that only
	// acts through /health, the start of the hold.
	Claimed bool
	// Present reports whether the rule's taint is on the node, no matter who added it.
	Present bool
	// Shared reports whether the taint is there because another rule claims it, and this rule does not.
	Shared bool
	// Completed reports whether the node has a completion marker of the rule, in the current or the older form.
	Completed bool
	// Existing reports whether the node existed before the rule was put in force.
	Existing bool
	// Released reports whether the node is or was in service under this rule: its record says so, or the node existed
	// before the rule and has no claim. Only such nodes count for maxUnavailable.
	Released bool
	// Rebooted reports whether the node's boot ID differs from the record's, and the rule re-arms on that. It is false
	// while the rule is frozen or suspended, and on a terminating node without a claim.
	Rebooted bool
	// Boot is the time since which evidence counts, on a node that was re-armed and not released since.
	Boot evidence.Boot
	// MarkedFalse reports whether the rule has made the condition False that it publishes, and it still is.
	MarkedFalse bool
	// Counted reports whether maxUnavailable counts the node: it is released, and neither cordoned, terminating,
	// overridden nor held for an override; or its claim used the limit. So a remediator that cordons or deletes each held
	// node cannot make the rule hold one node after another.
	Counted bool
	// Domains are the failure domains in which limits count the node: those of its record, or else those of its labels.
	Domains string
}

// StateOf returns the state of a node under a rule.
func StateOf(rule *ruleset.Rule, node *corev1.Node, now time.Time) State { //nolint:gocyclo // one field after the other
	s := State{Matches: rule.Matches(node.Labels)}
	_, value, ok := RecordOn(rule, node)
	s.HasRecord = ok
	if ok {
		s.Record, _ = DecodeRecord(value, node, now)
	}
	s.Completed = Completed(rule, node)
	s.Present = Find(node, rule.Taint) != nil
	s.Shared = s.Present && s.Record.Taint == "" && claimedByAnother(rule, node)
	if _, inherited := rule.Inherited[node.Name]; inherited && s.Present && !ok &&
		(!s.Shared || rule.Inert()) {
		s.Record, s.Shared = Record{Taint: FormatTaint(*rule.Taint), Since: metav1.NewTime(now.Truncate(time.Second))},
			false
	}
	if s.lapsed(rule, node) {
		s.Record.DropClaim()
	}
	s.Claimed = s.Record.Taint != "" || rule.HoldsByVerdict() && !s.Record.Since.IsZero()
	s.Existing = rule.Existing(node) || s.Record.Existing
	s.Released = !s.Record.Released.IsZero() || s.Completed || s.Existing && !s.Claimed && (!s.Present || s.Shared)
	s.boot(rule, node, now)
	s.MarkedFalse = markedFalse(rule, node)
	s.Domains = rule.Limit.Domains(s.Record.Domains, node.Labels)
	s.Counted = s.Matches && (s.Released && !s.Record.Forced && Available(node, now) || s.Claimed && s.Record.Limited)
	return s
}

// lapsed reports whether the claim is older than the time at which the rule was last put in force, and its taint is no
// longer there. A user may have removed it while the rule was suspended. The limit applies before it is added again.
func (s *State) lapsed(rule *ruleset.Rule, node *corev1.Node) bool {
	return s.Record.Since.Time.Before(rule.InForceSince) && !rule.Inert() && rule.Existing(node) && s.Gone(node)
}

// Gone reports whether the taint that the rule claims is not on the node.
func (s *State) Gone(node *corev1.Node) bool {
	t, claims := s.Record.Claim()
	return claims && Find(node, &t) == nil
}

// Available reports whether a node is neither cordoned, terminating nor overridden.
func Available(node *corev1.Node, now time.Time) bool {
	o, _ := OverrideOf(node, now) // an invalid override is none
	return !node.Spec.Unschedulable && node.DeletionTimestamp.IsZero() && o.Action == OverrideNone
}

// Completed reports whether a node has a completion marker of a rule, in the current or the older form, or of the rule
// that it continues.
func Completed(rule *ruleset.Rule, node *corev1.Node) bool {
	_, marked := node.Annotations[rule.MarkerKey()]
	_, oldMarked := node.Annotations[rule.OldMarkerKey()]
	_, former := rule.FormerKeys(node)
	return marked || oldMarked || slices.ContainsFunc(former, func(key string) bool {
		_, formerlyMarked := node.Annotations[key]
		return formerlyMarked
	})
}

// Service returns since when the node is in service, for requirements of DaemonSets. A node that existed before the
// rule counts as in service since the rule is in force, until its record has a time.
func (s *State) Service(rule *ruleset.Rule, node *corev1.Node) evidence.Service {
	switch {
	case !s.Boot.SeenAt.IsZero():
		return evidence.Service{}
	case !s.Record.Released.IsZero():
		return evidence.Service{Released: s.Record.Released.Time,
			Undisrupted: !s.Claimed && s.Record.TimedOut.IsZero()}
	case s.Released && rule.Existing(node):
		return evidence.Service{Released: rule.InForceSince}
	}
	return evidence.Service{}
}

// boot sets Boot and Rebooted.
func (s *State) boot(rule *ruleset.Rule, node *corev1.Node, now time.Time) {
	if !rule.Spec.RearmsOnReboot() {
		return
	}
	rec := &s.Record
	s.Boot = evidence.Boot{Bound: rec.NotBefore.Time, SeenAt: rec.RearmedAt.Time, Former: rec.Former.Time}
	boot := BootID(node.Status.NodeInfo.BootID)
	if boot == "" || s.Record.BootID == "" || boot == s.Record.BootID {
		return
	}
	if !rule.Inert() && (s.Claimed || node.DeletionTimestamp.IsZero()) {
		s.Rebooted = true
		s.Boot = evidence.Boot{Bound: bootHeartbeat(node, now), SeenAt: now.Truncate(time.Second), Former: rec.newest().Time}
	}
}

// bootHeartbeat returns when kubelet last reported Ready, or now if it has not, or if that time is far in the future.
// By a clock that was wrong at the boot, no evidence would count until that time.
func bootHeartbeat(node *corev1.Node, now time.Time) time.Time {
	if c := condition.Find(node, string(corev1.NodeReady)); c != nil && !c.LastHeartbeatTime.IsZero() &&
		!c.LastHeartbeatTime.After(now.Add(evidence.MaxClockSkew)) {
		return c.LastHeartbeatTime.Time
	}
	return now.Truncate(time.Second)
}

// claimedByAnother reports whether the record of another rule claims this rule's taint.
func claimedByAnother(rule *ruleset.Rule, node *corev1.Node) bool {
	own, _, _ := RecordOn(rule, node)
	for key, value := range node.Annotations {
		if !strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) || key == own {
			continue
		}
		if t, claims := ClaimIn(value); claims && t.MatchTaint(rule.Taint) {
			return true
		}
	}
	return false
}

// Fresh reports whether the node was never released under the rule, by a record that it has or gets. Whether a node
// was released before a reboot is not always known. If it is unknown, the node counts as released.
func (s *State) Fresh(rec *Record) bool {
	return !s.Released && !rec.Existing && !rec.Counted && (rec.RearmedAt.IsZero() || rec.Starting)
}

// Expired reports whether the timeout of a held node has ended that was never released under the rule.
func (s *State) Expired(rec *Record) bool { return !rec.TimedOut.IsZero() && s.Fresh(rec) }

// Published returns the condition of a type on a node if the operator has published it, else nil.
func Published(node *corev1.Node, conditionType string) *corev1.NodeCondition {
	if c := condition.Find(node, conditionType); c != nil && strings.HasPrefix(c.Reason, v1alpha1.PublishedReasonPrefix) {
		return c
	}
	return nil
}

// PublishedOf is how the message of a published condition begins. The rule's name and a colon follow.
const PublishedOf = "rule "

// OfAnother reports whether another rule has written a published condition, by its message: a write changes both at
// once, but a record before that.
func OfAnother(c *corev1.NodeCondition, rule string) bool {
	by, named := strings.CutPrefix(c.Message, PublishedOf)
	by, _, told := strings.Cut(by, ": ")
	return named && told && by != rule
}

func markedFalse(rule *ruleset.Rule, node *corev1.Node) bool {
	if rule.Spec.Publish == nil {
		return false
	}
	c := Published(node, rule.Spec.Publish.ConditionType)
	return c != nil && c.Status == corev1.ConditionFalse && !OfAnother(c, rule.Name)
}

// Concerns reports whether the rule must decide about the node: it selects the node, or has written something there.
func (s *State) Concerns(rule *ruleset.Rule, node *corev1.Node) bool {
	if s.Matches || s.HasRecord || s.Completed {
		return true
	}
	_, inherited := rule.Inherited[node.Name]
	return inherited
}

// Leftover reports whether a node has anything that the deletion of a rule waits for: all that the rule wrote, except
// completion markers, which outlive it.
func Leftover(rule *ruleset.Rule, node *corev1.Node) bool {
	if _, _, recorded := RecordOn(rule, node); recorded || rule.RemoveMarkers && Completed(rule, node) {
		return true
	}
	_, inherited := rule.Inherited[node.Name]
	return inherited && Find(node, rule.Taint) != nil && !claimedByAnother(rule, node)
}

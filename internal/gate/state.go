// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// State is where a node is under a rule, as the node itself says; no evidence is looked at.
type State struct {
	// Matches is whether the rule is about the node.
	Matches bool
	// Record is what the rule remembers; HasRecord whether the node has any annotation for it, readable or not.
	Record    Record
	HasRecord bool
	// Claimed is whether the rule holds the node: it claims a taint or, by the verdict for /health alone, its
	// record says since when.
	Claimed bool
	// Present is whether the rule's taint is on the node, regardless of who added it.
	Present bool
	// Shared is whether it is there because another rule claims it, and this one does not.
	Shared bool
	// Completed is whether the node has a completion marker of the rule, in either form.
	Completed bool
	// Existing is whether the node was there before the rule was put in force.
	Existing bool
	// Released is whether the node has been in service under this rule: its record says so, or it was there before the
	// rule and has no claim. Only such nodes count for maxUnavailable.
	Released bool
	// Rebooted is whether the node runs another boot than the record's, and the rule re-arms on that. If the rule is
	// frozen or suspended, or neither claims nor may add anything, that waits.
	Rebooted bool
	// Boot is since when evidence counts, on a node that was re-armed and not released since.
	Boot readiness.Boot
	// MarkedFalse is whether the condition that the rule publishes is on the node, and False.
	MarkedFalse bool
	// Counted is whether maxUnavailable counts the node: released, and neither cordoned nor terminating; or held by a
	// claim that used the limit, so that cordoning or deleting each held node does not walk the limit through a fleet.
	Counted bool
}

// StateOf reads the state of a node under a rule.
func StateOf(rule *ruleset.Rule, node *corev1.Node, now time.Time) State { //nolint:gocyclo // one field after the other
	s := State{Matches: rule.Matches(node.Labels)}
	value, ok := node.Annotations[rule.RecordKey()]
	s.HasRecord = ok
	if ok {
		s.Record, _ = DecodeRecord(value, node, now)
	}
	_, marked := node.Annotations[rule.MarkerKey()]
	_, oldMarked := node.Annotations[rule.OldMarkerKey()]
	s.Completed = marked || oldMarked
	s.Present = Find(node, rule.Taint) != nil
	s.Shared = s.Present && s.Record.Taint == "" && claimedByAnother(rule, node)
	if _, inherited := rule.Inherited[node.Name]; inherited && s.Present && !ok &&
		(!s.Shared || rule.Inert()) {
		s.Record, s.Shared = Record{Taint: FormatTaint(*rule.Taint), Since: metav1.NewTime(now)}, false
	}
	if lapsed(rule, node, &s.Record) {
		s.Record.dropClaim()
	}
	s.Claimed = s.Record.Taint != "" || rule.HoldsByVerdict() && !s.Record.Since.IsZero()
	s.Existing = rule.Existing(node) || s.Record.Existing
	s.Released = !s.Record.Released.IsZero() || s.Completed || s.Existing && !s.Claimed && (!s.Present || s.Shared)
	s.boot(rule, node, now)
	s.MarkedFalse = markedFalse(rule, node)
	s.Counted = s.Matches && (s.Released && available(node) || s.Claimed && s.Record.Limited)
	return s
}

// lapsed reports whether a claim is from before the rule was last put in force and its taint is gone: a person may have
// removed it while the rule was suspended. The limit applies before it comes back.
func lapsed(rule *ruleset.Rule, node *corev1.Node, rec *Record) bool {
	if rec.Taint == "" || rule.Inert() || !rule.Existing(node) || !rec.Since.Time.Before(rule.InForceSince) {
		return false
	}
	t, err := ParseTaint(rec.Taint)
	return err == nil && Find(node, &t) == nil
}

// available reports whether a node is neither cordoned nor terminating.
func available(node *corev1.Node) bool {
	return !node.Spec.Unschedulable && node.DeletionTimestamp.IsZero()
}

// controlPlane reports whether a node is one of the control plane.
func controlPlane(node *corev1.Node) bool {
	for _, role := range []string{"control-plane", "master"} {
		if _, ok := node.Labels["node-role.kubernetes.io/"+role]; ok {
			return true
		}
	}
	return false
}

// service is since when the node is in service, for requirements of DaemonSets. A node that existed before the rule is
// in service since the rule is in force, until its record says more.
func (s *State) service(rule *ruleset.Rule, node *corev1.Node) readiness.Service {
	switch {
	case !s.Boot.SeenAt.IsZero():
		return readiness.Service{}
	case !s.Record.Released.IsZero():
		return readiness.Service{Released: s.Record.Released.Time,
			Undisrupted: !s.Claimed && s.Record.TimedOut.IsZero()}
	case s.Released && rule.Existing(node):
		return readiness.Service{Released: rule.InForceSince}
	}
	return readiness.Service{}
}

// boot reads from when on evidence counts.
func (s *State) boot(rule *ruleset.Rule, node *corev1.Node, now time.Time) {
	if !rule.Spec.RearmsOnReboot() {
		return
	}
	rec := &s.Record
	s.Boot = readiness.Boot{Bound: rec.NotBefore.Time, SeenAt: rec.RearmedAt.Time, Former: rec.Former.Time}
	boot := node.Status.NodeInfo.BootID
	if boot == "" || s.Record.BootID == "" || boot == s.Record.BootID {
		return
	}
	if !rule.Inert() && (s.Claimed || node.DeletionTimestamp.IsZero()) {
		s.Rebooted = true
		s.Boot = readiness.Boot{Bound: bootHeartbeat(node, now), SeenAt: now.Truncate(time.Second), Former: rec.newest().Time}
	}
}

// bootHeartbeat is when kubelet last reported Ready in this object; now, where it has not, or that is far in the
// future: by a clock that was wrong at the boot no later evidence would count until that time.
func bootHeartbeat(node *corev1.Node, now time.Time) time.Time {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type == corev1.NodeReady && !c.LastHeartbeatTime.IsZero() && !c.LastHeartbeatTime.After(now.Add(MaxClockSkew)) {
			return c.LastHeartbeatTime.Time
		}
	}
	return now.Truncate(time.Second)
}

// claimedByAnother reports whether the record of another rule claims this rule's taint.
func claimedByAnother(rule *ruleset.Rule, node *corev1.Node) bool {
	for key, value := range node.Annotations {
		if !strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) || key == rule.RecordKey() {
			continue
		}
		for _, t := range ClaimIn(value) {
			if TaintIDOf(t) == TaintIDOf(*rule.Taint) {
				return true
			}
		}
	}
	return false
}

// Concerns reports whether there is anything to decide for the rule on the node: it matches, or has left something
// there.
func (s *State) Concerns(rule *ruleset.Rule, node *corev1.Node) bool {
	if s.Matches || s.HasRecord || s.Completed {
		return true
	}
	_, inherited := rule.Inherited[node.Name]
	return inherited
}

// Leftover reports whether a node has anything that a rule wrote: what a deleted rule has to wait for.
func Leftover(rule *ruleset.Rule, node *corev1.Node) bool {
	for _, key := range []string{rule.RecordKey(), rule.MarkerKey(), rule.OldMarkerKey()} {
		if _, ok := node.Annotations[key]; ok {
			return true
		}
	}
	_, inherited := rule.Inherited[node.Name]
	return inherited && Find(node, rule.Taint) != nil && !claimedByAnother(rule, node)
}

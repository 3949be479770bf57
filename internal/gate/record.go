// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/lru"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Record is what the operator remembers about one rule on one node. Its JSON is the value of the annotation
// readiness.node.x-k8s.io/rule-<UID of the rule>. All times are in seconds, UTC.
type Record struct {
	// Rule is the rule's name, for people: the key has only its UID.
	Rule string `json:"rule,omitempty"`
	// Taint is the taint that the rule claims on the node, as key=value:effect, with the value that the rule asked for.
	// Empty: it claims none.
	Taint string `json:"taint,omitempty"`
	// Since is when the claim was made. A claim without it was made by an admission policy, which has no clock.
	Since metav1.Time `json:"since,omitzero"`
	// Late, of a claim without Since, is whether it was made when a node that was there already came to match: its clock
	// does not start with the node's creation, but when the controller sees it.
	Late bool `json:"late,omitempty"`
	// Adopted is whether the claim of a bootstrap-only rule is for a taint that was on the node already.
	Adopted bool `json:"adopted,omitempty"`
	// Limited is whether maxUnavailable counts the claim, also while the node is cordoned or terminating.
	Limited bool `json:"limited,omitempty"`
	// Existing is whether the node was in service when the rule first considered it, and existingNodes was asked.
	Existing bool `json:"existing,omitempty"`
	// Released is when the node was released for the first time since it was created or re-armed, or was found in
	// service. Zero: never.
	Released metav1.Time `json:"released,omitzero"`
	// TimedOut is when the rule's timeout ended; cleared when the rule holds.
	TimedOut metav1.Time `json:"timedOut,omitzero"`
	// BootID is the node's boot ID, kept where the rule re-arms on reboot.
	BootID string `json:"bootID,omitempty"`
	// NotBefore, of a re-armed node, is the Ready heartbeat of the object that brought BootID. Evidence from before it
	// does not count. Cleared on release.
	NotBefore metav1.Time `json:"notBefore,omitzero"`
	// RearmedAt is when the operator re-armed the node, by its own clock. Former is the newest time that the record had
	// before: no container that started earlier was started by this boot. Both are cleared on release.
	RearmedAt metav1.Time `json:"rearmedAt,omitzero"`
	Former    metav1.Time `json:"former,omitzero"`
	// Starting, of a re-armed node, is whether it rebooted before its start had ended: its start goes on.
	Starting bool `json:"starting,omitempty"`
	// GuardedSince is when the node became not ready, while its pods are guarded and until what is due is evicted. The
	// clock of maxHoldSeconds starts with it.
	GuardedSince metav1.Time `json:"guardedSince,omitzero"`
	// GuardEnded is when the guard ended although the node was not ready: maxHoldSeconds had passed, the override Release
	// was set, or the rule did not guard the node any more. Cleared when the node is ready, or is guarded again. If the
	// rule does not guard the node any more, both are cleared when what is due is evicted.
	GuardEnded metav1.Time `json:"guardEnded,omitzero"`
	// Published is the type of the node condition that the rule publishes. It is recorded before the condition is written,
	// and forgotten after the condition is gone.
	Published string `json:"published,omitempty"`
	// Health, of a rule with health, is whether the rule holds the node back: what /health answers for the rule where only
	// the operator can judge. Empty: not judged yet, or the rule does not count.
	Health v1alpha1.HealthVerdict `json:"health,omitempty"`
	// Missed is whether the node has been counted as one that missed the startup objective, and is still starting.
	Missed bool `json:"missed,omitempty"`
	// Counted is whether the node's start has been counted although the rest of the record looks like that of a node that
	// is starting.
	Counted bool `json:"counted,omitempty"`
}

// Empty reports whether there is nothing to remember.
func (r *Record) Empty() bool {
	without := *r
	without.Rule = ""
	return without == Record{}
}

// dropClaim forgets the claim.
func (r *Record) dropClaim() {
	r.Taint, r.Since, r.Late, r.Adopted, r.Limited = "", metav1.Time{}, false, false, false
}

// newest is the newest time of the record.
func (r *Record) newest() metav1.Time {
	newest := metav1.Time{}
	for _, t := range []metav1.Time{r.Since, r.Released, r.TimedOut, r.GuardedSince, r.GuardEnded, r.RearmedAt} {
		if newest.Before(&t) {
			newest = t
		}
	}
	return newest
}

// booted forgets the boot: the node has been released since.
func (r *Record) booted() {
	r.NotBefore, r.RearmedAt, r.Former, r.Starting = metav1.Time{}, metav1.Time{}, metav1.Time{}, false
}

// Encode is the record as the annotation has it.
func (r Record) Encode() string { return string(r.append(nil)) }

// EncodedAs reports whether a value is the record as the annotation has it. The buffer, which may be nil at first, has
// the record afterwards.
func (r *Record) EncodedAs(value string, buffer *[]byte) bool {
	if *buffer == nil {
		*buffer = make([]byte, 0, 512)
	}
	*buffer = r.append((*buffer)[:0])
	return value == string(*buffer)
}

// ReadRecord reads a record as it stands.
func ReadRecord(value string) (Record, bool) {
	var r Record
	if r.read(value) {
		return r, true
	}
	return readJSON(value)
}

// DecodeRecord reads a record. What cannot be read, or has impossible times (before the node was created, or
// in the future), is as if it were not there: a record that was copied from a node's former life, or forged, must not
// open the gate. A claim before the node's creation counts from the creation: the webhook claims in the creating
// request, and the API server sets the time of creation after that.
func DecodeRecord(value string, node *corev1.Node, now time.Time) (Record, bool) {
	r, ok := ReadRecord(value)
	if !ok {
		return Record{}, false
	}
	if r.Taint != "" {
		if _, err := ParseTaint(r.Taint); err != nil {
			r.Taint = ""
		}
	}
	if !r.Since.IsZero() && r.Since.Time.Before(node.CreationTimestamp.Time) {
		r.Since = node.CreationTimestamp
	}
	for _, t := range []*metav1.Time{
		&r.Since, &r.Released, &r.TimedOut, &r.GuardedSince, &r.GuardEnded, &r.RearmedAt, &r.Former,
	} {
		if t.Time.Before(node.CreationTimestamp.Time) || t.Time.After(now.Add(MaxClockSkew)) {
			*t = metav1.Time{}
		}
	}
	if r.Published != "" && !ruleset.Publishable(r.Published) {
		r.Published = ""
	}
	if r.Health != v1alpha1.HealthReady && r.Health != v1alpha1.HealthNotReady {
		r.Health = ""
	}
	if r.NotBefore.After(now.Add(MaxClockSkew)) { // by kubelet's clock, which may be behind; a past one does no harm
		r.NotBefore = metav1.Time{}
	}
	return r, true
}

// MaxClockSkew is how far ahead of this process's clock the clock of another replica may be.
const MaxClockSkew = 5 * time.Minute

// FormatTaint is a taint as key=value:effect.
func FormatTaint(t corev1.Taint) string { return t.Key + "=" + t.Value + ":" + string(t.Effect) }

// validTaints holds taints that parseTaint has accepted, by their text. Every pass of a node reads the taint of each
// record, and the check of a key by regular expressions would be a tenth of the pass.
var validTaints = lru.New(1024)

// ParseTaint reads key=value:effect or key:effect. It accepts only taints that a rule may have, so that a forged record
// cannot make the operator remove a taint of Kubernetes itself.
func ParseTaint(s string) (corev1.Taint, error) {
	if t, ok := validTaints.Get(s); ok {
		return t.(corev1.Taint), nil //nolint:forcetypeassert // added below
	}
	s = strings.Clone(s) // it may be a part of a much longer annotation
	t, err := parseTaint(s)
	if err == nil {
		validTaints.Add(s, t)
	}
	return t, err
}

func parseTaint(s string) (corev1.Taint, error) {
	rest, effect, ok := cutLast(s, ":")
	if !ok {
		return corev1.Taint{}, fmt.Errorf("taint %q: want key=value:effect", s)
	}
	key, value, _ := strings.Cut(rest, "=")
	t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
	switch t.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		return corev1.Taint{}, fmt.Errorf("taint %q: unknown effect %q", s, effect)
	}
	if msg := ruleset.ValidateTaintKey(key); msg != "" {
		return corev1.Taint{}, fmt.Errorf("taint %q: key: %s", s, msg)
	}
	if msgs := validation.IsValidLabelValue(value); len(msgs) > 0 {
		return corev1.Taint{}, fmt.Errorf("taint %q: value: %s", s, strings.Join(msgs, "; "))
	}
	return t, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// TaintID tells taints of one node apart, as Kubernetes does: by key and effect.
type TaintID struct {
	Key    string
	Effect corev1.TaintEffect
}

// TaintIDOf is the identity of a taint.
func TaintIDOf(t corev1.Taint) TaintID { return TaintID{t.Key, t.Effect} }

// ClaimID is what a claim in a record is about; false where there is none.
func ClaimID(claim string) (TaintID, bool) {
	if claim == "" {
		return TaintID{}, false
	}
	t, err := ParseTaint(claim)
	return TaintIDOf(t), err == nil
}

// Find is the node's taint of the same key and effect, nil if it has none.
func Find(node *corev1.Node, t *corev1.Taint) *corev1.Taint {
	if t == nil {
		return nil
	}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == t.Key && node.Spec.Taints[i].Effect == t.Effect {
			return &node.Spec.Taints[i]
		}
	}
	return nil
}

// ClaimIn is the taint that a record claims, if it is one that a rule may have.
func ClaimIn(record string) []corev1.Taint {
	r, ok := ReadRecord(record)
	if !ok || r.Taint == "" {
		return nil
	}
	t, err := ParseTaint(r.Taint)
	if err != nil {
		return nil
	}
	return []corev1.Taint{t}
}

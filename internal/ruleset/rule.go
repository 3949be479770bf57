// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/limit"
)

// Mode says how far a rule is in force. If several modes apply, the first of this list counts.
type Mode int

const (
	// Deleting: the operator removes the rule's taints and records.
	Deleting Mode = iota
	// Frozen: the rule is invalid. The operator changes nothing for it.
	Frozen
	// DryRun: the operator removes the rule's taints, and reports what the rule would do.
	DryRun
	// Suspended: the operator changes nothing for the rule, except that the override Release releases a node.
	Suspended
	// Enforced: the rule is in force.
	Enforced
)

// String returns the mode's name.
func (m Mode) String() string {
	return [...]string{Deleting: "Deleting", Frozen: "Frozen", DryRun: "DryRun", Suspended: "Suspended",
		Enforced: "Enforced"}[m]
}

// Rule is a compiled NodeReadinessRule. It does not change after Compile.
type Rule struct {
	UID        types.UID
	Name       string
	Generation int64
	CreatedAt  time.Time
	Mode       Mode

	// Spec is the rule's spec. It must not be changed.
	Spec *v1alpha1.NodeReadinessRuleSpec
	// Selector is the compiled node selector. It matches nothing if the selector of the spec is invalid.
	Selector labels.Selector
	// Taint is the rule's taint, or nil if it has none.
	Taint *corev1.Taint
	// Limit is the rule's limit.
	Limit limit.Rule
	// Requirements are the compiled requirements, in the order of the spec.
	Requirements []evidence.Requirement
	// Problems are the reasons why the rule is invalid. They are empty for a valid rule.
	Problems []Problem

	// InForceSince is when the rule was last put in force with its selector, or when the dry-run was first seen, by the
	// API server's clock. It is zero in the other modes. Nodes that were created before are existing nodes.
	InForceSince time.Time
	// JustInForce is true until a status says that the rule is in force. Until then the rule was not evaluated on all of
	// its nodes, and missing evidence may have been missing before.
	JustInForce bool
	// GuardSince is when the rule got its eviction guard, as far as this process knows, or was put in force. If a node
	// was not ready before that, maxHoldSeconds count from then.
	GuardSince time.Time
	// SelectorHash identifies the selector in the rule's status.
	SelectorHash string

	// RemoveMarkers says that the completion markers are removed when the rule is deleted.
	RemoveMarkers bool

	// Inherited are the nodes with the rule's taint, by what the incumbent controller has written to the status.
	Inherited map[string]struct{}

	// outOfForce is the last generation that this process has seen in dry-run or suspended. A status of that or of an
	// earlier generation no longer tells since when the rule is in force.
	outOfForce int64

	// yielded says that another controller manages the taint, as far as Set.Yield knows. yieldedSince is InForceSince
	// from before. A status with that time, or an earlier one, no longer tells since when the rule is in force.
	yielded      bool
	yieldedSince time.Time

	// thawed is the rule from which Freeze made this one.
	thawed *Rule
	// bare is the rule from which Set.WithDaemonSets made this one.
	bare *Rule

	// keys are the keys of annotations on nodes. Each evaluation of a node needs them.
	keys struct{ record, marker, oldMarker string }
	// former are those of the rule that this one continues after a change of the API group. There are none if it
	// continues no rule. While a rule of the same set has the UID, they are that rule's, and this one ignores them.
	former struct {
		uid     types.UID
		lives   bool
		record  string
		markers []string // the first ones have the UID; the others, of the older form, have the name
		withUID int
	}
}

// Compile compiles a rule. prev is the former version of the compiled rule, or nil. now is when this version was first
// seen, by the API server's clock.
func Compile(obj *v1alpha1.NodeReadinessRule, prev *Rule, now time.Time) *Rule {
	r := &Rule{
		UID:        obj.UID,
		Name:       obj.Name,
		Generation: obj.Generation,
		CreatedAt:  obj.CreationTimestamp.Time,
	}
	r.RemoveMarkers = obj.Annotations[v1alpha1.RemoveMarkersAnnotation] == "true"
	r.keys.record = v1alpha1.RecordAnnotationPrefix + string(r.UID)
	r.keys.marker = v1alpha1.Served().MarkerPrefix + string(r.UID)
	r.keys.oldMarker = v1alpha1.Served().MarkerPrefix + r.Name
	if uid := obj.Annotations[v1alpha1.SuccessorAnnotation]; uid != "" && uid != string(r.UID) {
		r.former.uid, r.former.record = types.UID(uid), v1alpha1.RecordAnnotationPrefix+uid
		for _, group := range v1alpha1.Groups() {
			r.former.markers = append(r.former.markers, group.MarkerPrefix+uid)
		}
		r.former.withUID = len(r.former.markers)
		for _, group := range v1alpha1.Groups() {
			if group != v1alpha1.Served() {
				r.former.markers = append(r.former.markers, group.MarkerPrefix+r.Name)
			}
		}
	}
	r.compileSpec(&obj.Spec, prev)
	r.Mode = modeOf(obj, r.Problems)
	r.Inherited = inherited(obj)
	if now.Before(r.CreatedAt) { // the API server's clock is not known yet
		now = r.CreatedAt
	}
	if prev != nil {
		r.outOfForce = prev.outOfForce
		r.yielded, r.yieldedSince = prev.yielded, prev.yieldedSince
	}
	switch r.Mode {
	case Enforced:
		r.putInForce(obj, prev, now)
	case DryRun:
		r.rehearse(obj, prev, now)
	}
	if r.Spec.DryRun || r.Spec.Suspend { // also while it is invalid
		r.outOfForce = r.Generation
	}
	r.GuardSince = r.guardSince(prev, now)
	return r
}

func (r *Rule) guardSince(prev *Rule, now time.Time) time.Time {
	switch {
	case r.Spec.EvictionGuard == nil:
		return time.Time{}
	case prev != nil && prev.Spec.EvictionGuard == nil:
		return now.Truncate(time.Second)
	case prev != nil && prev.GuardSince.After(r.InForceSince):
		return prev.GuardSince
	}
	return r.InForceSince
}

// Inert reports whether the operator changes nothing for the rule on its own.
func (r *Rule) Inert() bool { return r.Mode == Frozen || r.Mode == Suspended }

// Pending reports whether evidence of the rule has not been read yet, as after each start.
func (r *Rule) Pending() bool {
	return r.Mode == Frozen && slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Reason == ReasonPending })
}

// Spared reports whether another controller acts on the rule or on its taint, so that nothing of it is changed, also if
// a person asks for it.
func (r *Rule) Spared() bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool {
		return p.Reason == ReasonOtherController || p.Reason == ReasonForeignRule
	})
}

// Yields reports whether the rule is frozen because another controller manages its taint.
func (r *Rule) Yields() bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Reason == ReasonForeignRule })
}

// Withdrawn reports whether dry-run removes the taints and published conditions of a frozen or suspended rule. That
// needs no evidence.
func (r *Rule) Withdrawn() bool { return r.Inert() && r.Spec.DryRun && !r.Spared() }

// Freeze returns the rule, frozen because of another rule or of the cluster, even if it is being deleted. A rule that
// requires a suspended rule is suspended, too.
func (r *Rule) Freeze(p Problem) *Rule {
	frozen := *r
	frozen.thawed = r
	frozen.Problems = append([]Problem{p}, r.Problems...)
	frozen.Mode = Frozen
	if p.Reason == ReasonSuspended {
		frozen.Mode = Suspended
	}
	return &frozen
}

// FreezeLike does the same as Freeze, but returns before if that is this rule, frozen by the same problem, also if it
// was frozen by another problem after that.
func (r *Rule) FreezeLike(before *Rule, p Problem) *Rule {
	for ; before != nil; before = before.thawed {
		if before.thawed == r && before.Problems[0] == p {
			return before
		}
	}
	return r.Freeze(p)
}

func modeOf(obj *v1alpha1.NodeReadinessRule, problems []Problem) Mode {
	switch {
	case !obj.DeletionTimestamp.IsZero():
		return Deleting
	case len(problems) > 0:
		return Frozen
	case obj.Spec.DryRun:
		return DryRun
	case obj.Spec.Suspend:
		return Suspended
	}
	return Enforced
}

// putInForce sets since when an enforced rule is in force with its selector, and whether no status says so yet. The
// status tells, unless it was written before a dry-run or a suspension that has ended, or before another controller
// managed the taint. A new rule is in force since its creation, unless it was edited since. Any other rule is put in
// force now.
//
// The time is by the API server's clock, as the creation of nodes is. By a clock that is ahead, new nodes would be
// existing nodes, until another leader comes. By one that is behind, existing nodes would be new.
func (r *Rule) putInForce(obj *v1alpha1.NodeReadinessRule, prev *Rule, now time.Time) {
	s, latest := &obj.Status, now.Add(evidence.MaxClockSkew)
	told := s.InForce != nil && s.InForce.SelectorHash == r.SelectorHash && !s.InForce.StartTime.After(latest) &&
		s.InForce.StartTime.After(r.yieldedSince) && described(obj) > r.outOfForce
	was := prev != nil && prev.Mode == Enforced && prev.SelectorHash == r.SelectorHash
	r.begin(now)
	switch {
	case was && !prev.InForceSince.After(latest):
		r.InForceSince = prev.InForceSince
	case prev == nil && !told && asCreated(obj):
		r.InForceSince = r.CreatedAt
	}
	if told {
		r.InForceSince, r.JustInForce = s.InForce.StartTime.Time, false
	}
}

// rehearse does the same for a rule in dry-run, as if it were put in force when the dry-run was first seen. After a
// restart, and in other processes, the status tells. A new rule is in dry-run since its creation.
func (r *Rule) rehearse(obj *v1alpha1.NodeReadinessRule, prev *Rule, now time.Time) {
	r.begin(now)
	results := obj.Status.DryRunResults
	switch {
	case prev != nil:
		if prev.Mode == DryRun {
			r.InForceSince = prev.InForceSince
		}
	case results != nil && results.StartTime != nil && !results.StartTime.After(now.Add(evidence.MaxClockSkew)):
		r.InForceSince, r.JustInForce = results.StartTime.Time, false
	case asCreated(obj):
		r.InForceSince = r.CreatedAt
	}
}

// described returns the generation that the status of a rule is about. Without a status, the first one is known: users
// create rules in it.
func described(obj *v1alpha1.NodeReadinessRule) int64 { return max(1, obj.Status.ObservedGeneration) }

// asCreated reports whether the operator has not processed a rule, and no user has edited it since its creation, or
// since the incumbent controller put it in force. That controller writes no observedGeneration in dry-run. An edited
// rule may have been suspended or in dry-run before: nodes of that time are in service.
func asCreated(obj *v1alpha1.NodeReadinessRule) bool {
	return meta.FindStatusCondition(obj.Status.Conditions, v1alpha1.ConditionReady) == nil &&
		obj.Generation <= described(obj)
}

// begin puts a rule in force now.
func (r *Rule) begin(now time.Time) {
	r.InForceSince, r.JustInForce = now.Truncate(time.Second), true
}

func hashSelector(s *v1alpha1.NodeSelector) string {
	raw, err := json.Marshal(s) // map keys are sorted: the same selector always gives the same bytes
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// ReportedNotInForce reports whether the status of a rule says that the rule, as it is now, is not in force.
func ReportedNotInForce(obj *v1alpha1.NodeReadinessRule) bool {
	c := meta.FindStatusCondition(obj.Status.Conditions, v1alpha1.ConditionReady)
	return c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == obj.Generation
}

// ReportedInForce reports whether the status of a rule says that the rule, as it is now or was when it was deleted, is
// in force, or in dry-run on all of its nodes.
func ReportedInForce(obj *v1alpha1.NodeReadinessRule) bool {
	last := obj.Status.ObservedGeneration
	return (obj.Status.InForce != nil || obj.Status.DryRunResults != nil) &&
		(last == obj.Generation || !obj.DeletionTimestamp.IsZero() && last == obj.Generation-1)
}

// SameTaint reports whether a rule has a taint, and another one, which may be nil, has the same key and effect.
func (r *Rule) SameTaint(other *Rule) bool {
	return other != nil && r.Taint != nil && other.Taint != nil && r.Taint.MatchTaint(other.Taint)
}

// Matches reports whether the rule selects a node with these labels.
func (r *Rule) Matches(nodeLabels map[string]string) bool {
	return r.Selector.Matches(labels.Set(nodeLabels))
}

// Limited reports whether the rule has a limit.
func (r *Rule) Limited() bool { return r.Limit.Set() }

// Existing reports whether a node existed before the rule was put in force. Times have a resolution of seconds. A node
// that was created in the same second counts as new, so that it is held.
func (r *Rule) Existing(node *corev1.Node) bool {
	return node.CreationTimestamp.Time.Before(r.InForceSince)
}

// Reference returns a reference to the rule, for events.
func (r *Rule) Reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion().String(), Kind: "NodeReadinessRule", Name: r.Name, UID: r.UID,
	}
}

// RecordKey returns the key of the annotation with this rule's record.
func (r *Rule) RecordKey() string { return r.keys.record }

// MarkerKey returns the key of the annotation that says that a node has completed this rule.
func (r *Rule) MarkerKey() string { return r.keys.marker }

// OldMarkerKey returns the key of that annotation in its older form.
func (r *Rule) OldMarkerKey() string { return r.keys.oldMarker }

// FormerKeys returns the keys of what the rule that this one continues may have written on a node: its record, and
// completion markers. Those of the older form have no UID, and may be another controller's.
func (r *Rule) FormerKeys(node *corev1.Node) (record string, markers []string) {
	if r.former.lives {
		return "", nil
	}
	if markers = r.former.markers; len(markers) > r.former.withUID && !r.mayMoveByName(node) {
		markers = markers[:r.former.withUID]
	}
	return r.former.record, markers
}

// mayMoveByName reports whether completion markers of the older form on a node may be of the rule that this one
// continues. They are not if the node is not older than this rule, if this rule does not select the node, or if this
// rule has written something there: it would have moved them.
func (r *Rule) mayMoveByName(node *corev1.Node) bool {
	_, recorded := node.Annotations[r.keys.record]
	_, marked := node.Annotations[r.keys.marker]
	return !recorded && !marked && node.CreationTimestamp.Time.Before(r.CreatedAt) && r.Matches(node.Labels)
}

// Equivalent reports whether both versions of a rule have the same verdicts and decisions.
func (r *Rule) Equivalent(o *Rule) bool {
	// One generation can have two specs: a CRD that lacks fields prunes them from what is read.
	return r.UID == o.UID && r.Generation == o.Generation && equality.Semantic.DeepEqual(r.Spec, o.Spec) &&
		r.Mode == o.Mode && r.RemoveMarkers == o.RemoveMarkers && r.former.record == o.former.record &&
		r.InForceSince.Equal(o.InForceSince) && maps.Equal(r.Inherited, o.Inherited)
}

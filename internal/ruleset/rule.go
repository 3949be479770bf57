// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Mode says how far a rule is in force. When several hold, the first of this list wins.
type Mode int

const (
	// Deleting: claims, records and markers of the rule go.
	Deleting Mode = iota
	// Frozen: the rule is invalid; nothing of it is added or removed.
	Frozen
	// DryRun: claims go, nothing is added; what would be done is reported.
	DryRun
	// Suspended: nothing of the rule is added or removed, but a person may release nodes.
	Suspended
	// Enforced: the rule acts.
	Enforced
)

// String is the mode's name.
func (m Mode) String() string {
	return [...]string{Deleting: "Deleting", Frozen: "Frozen", DryRun: "DryRun", Suspended: "Suspended",
		Enforced: "Enforced"}[m]
}

// Rule is a NodeReadinessRule, compiled. It is never changed after Compile.
type Rule struct {
	UID        types.UID
	Name       string
	Generation int64
	CreatedAt  time.Time
	Mode       Mode

	// Spec is the rule's spec. It must not be changed.
	Spec *v1alpha1.NodeReadinessRuleSpec
	// Selector is the compiled node selector; it matches nothing where the spec's is invalid.
	Selector labels.Selector
	// Taint is the rule's taint, nil if it has none.
	Taint *corev1.Taint
	// Requirements are the spec's, compiled, in its order.
	Requirements []Requirement
	// Problems are what makes the rule invalid; empty for a valid one.
	Problems []Problem

	// InForceSince is when the rule was last put in force for its selector; of a rule in dry-run, when that was first
	// seen; else zero. Nodes created before that are existing nodes.
	InForceSince time.Time
	// JustInForce is true until a status says that the rule is in force: its nodes have not all been looked at, so what
	// is missing on them now has, as far as anyone can tell, been missing since before.
	JustInForce bool
	// GuardSince is since when the rule has an eviction guard, as far as this process knows, and is in force: what was
	// lost before is guarded from then on.
	GuardSince time.Time
	// SelectorHash identifies the selector in the rule's status.
	SelectorHash string

	// outOfForce is the last generation that this process has seen in dry-run or suspended. What a status for that or an
	// earlier generation says about being in force has ended.
	outOfForce int64

	// thawed is the rule that this one is by Freeze.
	thawed *Rule
	// bare is the rule that this one is by Set.WithDaemonSets.
	bare *Rule

	// keys of annotations on nodes: each look at a node asks for them.
	keys struct{ record, marker, oldMarker string }

	// Inherited are the nodes that, by the status of a rule taken over from the incumbent controller, carry its taint.
	Inherited map[string]struct{}
}

// Compile compiles a rule. prev is the rule as it was compiled before, nil if it was not; now is when this version
// of it was first seen.
func Compile(obj *v1alpha1.NodeReadinessRule, prev *Rule, now time.Time) *Rule {
	r := &Rule{
		UID:        obj.UID,
		Name:       obj.Name,
		Generation: obj.Generation,
		CreatedAt:  obj.CreationTimestamp.Time,
		Spec:       obj.Spec.DeepCopy(),
	}
	r.keys.record = v1alpha1.RecordAnnotationPrefix + string(r.UID)
	r.keys.marker = v1alpha1.BootstrapAnnotationPrefix + string(r.UID)
	r.keys.oldMarker = v1alpha1.BootstrapAnnotationPrefix + r.Name
	if obj.Spec.Taint != nil {
		t := obj.Spec.Taint.Core()
		r.Taint = &t
	}
	r.SelectorHash = hashSelector(&r.Spec.NodeSelector)
	selector, err := r.Spec.NodeSelector.AsSelector()
	if err != nil || selector.Empty() {
		selector = labels.Nothing()
	}
	r.Selector = selector
	r.Requirements, r.Problems = compileSpec(r.Spec)
	r.Mode = modeOf(obj, r.Problems)
	r.Inherited = inherited(obj)
	if prev != nil {
		r.outOfForce = prev.outOfForce
	}
	switch r.Mode {
	case Enforced:
		r.InForceSince, r.JustInForce = r.inForce(obj, prev, now)
	case DryRun: // reports what enforcing it now would do
		r.InForceSince, r.JustInForce = now.Truncate(time.Second), true
		if prev != nil && prev.Mode == DryRun {
			r.InForceSince = prev.InForceSince
		}
		r.outOfForce = r.Generation
	case Suspended:
		r.outOfForce = r.Generation
	}
	r.GuardSince = r.guardSince(prev, now)
	return r
}

func (r *Rule) guardSince(prev *Rule, now time.Time) time.Time {
	switch {
	case r.Spec.EvictionGuard == nil:
		return time.Time{}
	case prev != nil && prev.Spec.EvictionGuard == nil && prev.Mode == r.Mode:
		return now.Truncate(time.Second)
	case prev != nil && prev.GuardSince.After(r.InForceSince):
		return prev.GuardSince
	}
	return r.InForceSince
}

// Inert reports whether the operator changes nothing for the rule by itself.
func (r *Rule) Inert() bool { return r.Mode == Frozen || r.Mode == Suspended }

// Freeze is the rule, frozen by a problem that is not its own, even while it is being deleted. A rule that requires a
// suspended one is suspended with it.
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

// FreezeLike is Freeze, or the same rule as before, where that is this rule frozen by the same problem.
func (r *Rule) FreezeLike(before *Rule, p Problem) *Rule {
	if before != nil && before.thawed == r && before.Problems[0] == p {
		return before
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

// inForce is since when an enforced rule is in force for its selector. What the status says holds, unless it was
// written before a dry-run or suspension that has ended since. A rule that was not processed yet is in force since
// its creation; any other was just put in force.
func (r *Rule) inForce(obj *v1alpha1.NodeReadinessRule, prev *Rule, now time.Time) (time.Time, bool) {
	s := &obj.Status
	if s.InForce != nil && s.InForce.SelectorHash == r.SelectorHash &&
		(r.outOfForce == 0 || s.ObservedGeneration > r.outOfForce) {
		return s.InForce.Since.Time, false
	}
	if prev != nil && prev.Mode == Enforced && prev.SelectorHash == r.SelectorHash {
		return prev.InForceSince, true
	}
	if prev == nil && meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady) == nil {
		return r.CreatedAt, true
	}
	return now.Truncate(time.Second), true
}

// inherited reads which nodes carry the rule's taint from a status that only the incumbent controller has written.
func inherited(obj *v1alpha1.NodeReadinessRule) map[string]struct{} {
	if meta.FindStatusCondition(obj.Status.Conditions, v1alpha1.ConditionReady) != nil {
		return nil
	}
	var nodes map[string]struct{}
	for _, e := range obj.Status.NodeEvaluations {
		if e.TaintStatus == v1alpha1.TaintPresent {
			if nodes == nil {
				nodes = map[string]struct{}{}
			}
			nodes[e.NodeName] = struct{}{}
		}
	}
	return nodes
}

func hashSelector(s *v1alpha1.NodeSelector) string {
	raw, err := json.Marshal(s) // map keys are sorted: the same selector always gives the same bytes
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// Matches reports whether the rule is about a node with these labels.
func (r *Rule) Matches(nodeLabels map[string]string) bool {
	return r.Selector.Matches(labels.Set(nodeLabels))
}

// HoldsByVerdict reports whether the rule holds nodes by its verdict alone, for /health or a published condition.
func (r *Rule) HoldsByVerdict() bool {
	return r.Taint == nil && (r.Spec.Health != nil || r.Spec.Publish != nil)
}

// Limited reports whether the rule has a limit.
func (r *Rule) Limited() bool { return r.Spec.MaxUnavailable != nil }

// MaxUnavailable is how many of so many released nodes may be held at a time. A percentage is rounded up.
func (r *Rule) MaxUnavailable(released int) int {
	if r.Spec.MaxUnavailable == nil {
		return released
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(r.Spec.MaxUnavailable, released, true)
	if err != nil || n < 0 {
		return 0 // invalid: such a rule is frozen and never gets here
	}
	return n
}

// Existing reports whether a node was there before the rule was put in force. Both times have a resolution of
// seconds; a node of the same second counts as new, which closes the gate.
func (r *Rule) Existing(node *corev1.Node) bool {
	return node.CreationTimestamp.Time.Before(r.InForceSince)
}

// Reference refers to the rule, for events.
func (r *Rule) Reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeReadinessRule", Name: r.Name, UID: r.UID,
	}
}

// RecordKey is the key of the annotation with this rule's record.
func (r *Rule) RecordKey() string { return r.keys.record }

// MarkerKey is the key of the annotation that says that a node has completed this rule.
func (r *Rule) MarkerKey() string { return r.keys.marker }

// OldMarkerKey is the key of that annotation in its older form.
func (r *Rule) OldMarkerKey() string { return r.keys.oldMarker }

// Equivalent reports whether both decide alike, so that nothing needs to be looked at again.
func (r *Rule) Equivalent(o *Rule) bool {
	// One generation can have two specs: a CRD that lacks fields prunes them from what is read.
	return r.UID == o.UID && r.Generation == o.Generation && equality.Semantic.DeepEqual(r.Spec, o.Spec) &&
		r.Mode == o.Mode &&
		r.InForceSince.Equal(o.InForceSince) && len(r.Inherited) == len(o.Inherited)
}

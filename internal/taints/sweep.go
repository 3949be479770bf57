// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// UnknownRules returns the rules that have annotations on a node and are not in the set: their UIDs, or their names
// where a marker has the older form. The caller must check whether such a rule is deleted, because it may only be new.
func UnknownRules(node *corev1.Node, set *ruleset.Set) []string {
	var out []string
	for key := range node.Annotations {
		if ref, ok := unknownRuleIn(key, set); ok && !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	slices.Sort(out)
	return out
}

func unknownRuleIn(key string, set *ruleset.Set) (ref string, ok bool) {
	ref, ok = strings.CutPrefix(key, v1alpha1.RecordAnnotationPrefix)
	if ok {
		return ref, set.Rule(types.UID(ref)) == nil
	}
	if ref, ok = strings.CutPrefix(key, v1alpha1.BootstrapAnnotationPrefix); ok {
		return ref, set.Rule(types.UID(ref)) == nil && set.Named(ref) == nil
	}
	return "", false
}

// MarkersStay is how long completion markers outlive their rule. A rule of the same name that is created in that time
// takes them over.
const MarkersStay = 10 * time.Minute

// Swept is a node without what deleted rules left.
type Swept struct {
	// Node is the node for all decisions.
	Node *corev1.Node
	// Claims are the taints that deleted rules claimed.
	Claims []corev1.Taint
	// Doubtful are the taints of records that the creator of the node may have written.
	Doubtful []corev1.Taint
	// Published are the types of the conditions that deleted rules published. Such a record stays, with nothing else in
	// it, until the condition is removed or another rule publishes it.
	Published []string
	// RecheckAt is when markers are removed that stay until then. Zero means that there are none.
	RecheckAt time.Time
}

// Missing reports whether an unknown rule is deleted, and since when this process knows that it is missing.
type Missing func(ref string) (since time.Time, gone bool)

// Known reports whether a rule of a UID has had a taint of this key and effect. If nil, records are believed.
type Known func(uid string, taint *corev1.Taint) bool

// Sweep removes what deleted rules left on a node. If a rule exists again under the same name, after a restore for
// example, and is still bootstrap-only, the completion marker becomes that rule's. Otherwise the rule would hold the
// whole fleet again.
func Sweep(node *corev1.Node, set *ruleset.Set, missing Missing, known Known, now time.Time) Swept {
	s := Swept{Node: node}
	if len(UnknownRules(node, set)) == 0 {
		return s
	}
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		ref, ok := unknownRuleIn(key, set)
		if !ok {
			continue
		}
		since, gone := missing(ref)
		if !gone || s.awaits(key, node.Annotations[key], set, since.Add(MarkersStay), now) {
			continue
		}
		if s.Node == node {
			copied := *node
			copied.Annotations = maps.Clone(node.Annotations)
			s.Node = &copied
		}
		delete(s.Node.Annotations, key)
		value := node.Annotations[key]
		if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) {
			s.sweepClaim(ref, value, known)
			s.sweepMark(key, value)
			s.sweepPublished(key, value)
		} else if heir := heirOf(value, set); heir != nil {
			s.Node.Annotations[heir.MarkerKey()] = marker(heir)
		}
	}
	return s
}

// sweepClaim notes the taint of a deleted rule's record. A kubelet may register its node with a taint and a record in
// the form that admission writes, of a rule that never was.
func (s *Swept) sweepClaim(uid, value string, known Known) {
	r, _ := gate.ReadRecord(value)
	t, claims := r.Claim()
	switch {
	case !claims:
	case known != nil && r.Admitted() && !known(uid, &t):
		s.Doubtful = append(s.Doubtful, t)
	default:
		s.Claims = append(s.Claims, t)
	}
}

// awaits reports whether an annotation is a marker that waits for a rule of the same name.
func (s *Swept) awaits(key, value string, set *ruleset.Set, until, now time.Time) bool {
	if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) || heirOf(value, set) != nil || !now.Before(until) {
		return false
	}
	if s.RecheckAt.IsZero() || until.Before(s.RecheckAt) {
		s.RecheckAt = until
	}
	return true
}

// sweepMark removes the annotation by which a deleted rule handed the node over for replacement.
func (s *Swept) sweepMark(key, value string) {
	r, _ := gate.ReadRecord(value)
	if annotation, ok := marks(s.Node.Annotations, key, r.Mark); ok {
		delete(s.Node.Annotations, annotation)
	}
}

// sweepPublished keeps the record of a deleted rule until the condition that the rule published is removed.
func (s *Swept) sweepPublished(key, value string) {
	r, ok := gate.ReadRecord(value)
	if !ok || !ruleset.Publishable(r.Published) || gate.Published(s.Node, r.Published) == nil {
		return
	}
	for other, v := range s.Node.Annotations {
		if strings.HasPrefix(other, v1alpha1.RecordAnnotationPrefix) {
			if o, _ := gate.ReadRecord(v); o.Published == r.Published {
				return
			}
		}
	}
	s.Published = append(s.Published, r.Published)
	s.Node.Annotations[key] = gate.Record{Rule: r.Rule, Published: r.Published}.Encode()
}

type markerValue struct {
	RuleName string `json:"rule-name"`
}

// marker returns the value of a rule's completion marker, in the incumbent controller's form.
func marker(rule *ruleset.Rule) string {
	raw, err := json.Marshal(markerValue{RuleName: rule.Name})
	if err != nil { // a string: cannot happen
		return "{}"
	}
	return string(raw)
}

// heirOf returns the bootstrap-only rule of the name that a marker has, or nil. To another rule, a marker means
// nothing.
func heirOf(value string, set *ruleset.Set) *ruleset.Rule {
	var m markerValue
	if json.Unmarshal([]byte(value), &m) != nil {
		return nil
	}
	if heir := set.Named(m.RuleName); heir != nil && heir.Spec.BootstrapOnly() {
		return heir
	}
	return nil
}

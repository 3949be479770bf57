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
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Succeed returns the node with what the predecessors of rules wrote to it as if the rules had written it, so that the
// patch for the node moves it. A rule that has its own record keeps that one, unless it is only a claim by admission.
// Then the record of the predecessor stays for Sweep, as that of a deleted rule: it may name another taint. A marker
// for which there is no room, since its key becomes longer, stays as it is.
func Succeed(node *corev1.Node, set *ruleset.Set) *corev1.Node {
	out := &annotations{values: node.Annotations}
	for _, rule := range set.Successors() {
		record, markers := rule.FormerKeys(node)
		if key, value, ok := nodeview.RecordOn(rule, node); ok && key == record {
			out.remove(record)
			out.set(rule.RecordKey(), value)
		}
		for _, key := range markers {
			if value, marked := out.values[key]; marked && out.takes(rule.MarkerKey(), marker(rule), len(key)+len(value)) {
				out.remove(key)
				out.set(rule.MarkerKey(), marker(rule))
			}
		}
	}
	if !out.copied {
		return node
	}
	succeeded := *node
	succeeded.Annotations = out.values
	return &succeeded
}

// UnknownRules returns the rules that have annotations on a node and are not in the set, or are not inert and have a
// doubtful record there: their UIDs, or their names where a marker has the older form. The caller must ask the API
// server about them: such a rule, or its taint, may only be new.
func UnknownRules(node *corev1.Node, set *ruleset.Set, known Known) []string {
	var out []string
	for key := range node.Annotations {
		if ref, ok := unknownRuleIn(node, key, set, known); ok && !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	slices.Sort(out)
	return out
}

func unknownRuleIn(node *corev1.Node, key string, set *ruleset.Set, known Known) (ref string, ok bool) {
	ref, ok = strings.CutPrefix(key, v1alpha1.RecordAnnotationPrefix)
	if ok {
		rule := set.Rule(types.UID(ref))
		return ref, rule == nil || known != nil && !rule.Inert() && doubtful(node, key, known)
	}
	if ref, ok = strings.CutPrefix(key, v1alpha1.Served().MarkerPrefix); ok {
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
	// Doubtful are the taints of records that the creator of the node, or another client, may have written.
	Doubtful []corev1.Taint
	// Published are the types of the conditions that deleted rules published. Such a record stays, with nothing else in
	// it, until the condition is removed or another rule publishes it.
	Published []string
	// Foreign are the taints of another controller, which the plan leaves as they are.
	Foreign ruleset.Foreign
	// RecheckAt is when to look again at markers and records that stay until then. Zero means that there are none.
	RecheckAt time.Time
}

// Missing reports whether an unknown rule is deleted, and since when this process knows that it is missing.
type Missing func(ref string) (since time.Time, gone bool)

// Known reports whether a rule of a UID may have had a taint of this key and effect when admission decided about the
// node. If nil, records are believed.
type Known func(node *corev1.Node, uid string, taint *corev1.Taint) bool

// doubtful reports whether a record may be from the creator of the node: it has the form in which admission writes
// claims, and the taint is not known to be the rule's.
func doubtful(node *corev1.Node, key string, known Known) bool {
	r, _ := nodeview.ReadRecord(node.Annotations[key])
	if !r.Admitted() {
		return false
	}
	t, claims := r.Claim()
	return claims && !known(node, strings.TrimPrefix(key, v1alpha1.RecordAnnotationPrefix), &t)
}

// Sweep removes what deleted rules left on a node, and doubtful records of the others. If a rule exists again under the
// same name, after a restore for example, and is still bootstrap-only, the completion marker becomes that rule's.
// Otherwise the rule would hold the whole fleet again.
func Sweep(node *corev1.Node, set *ruleset.Set, missing Missing, known Known, now time.Time) Swept {
	s := Swept{Node: node, Foreign: set.Foreign()}
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		ref, ok := unknownRuleIn(node, key, set, known)
		if !ok {
			continue
		}
		since, gone := missing(ref)
		exists := set.Rule(types.UID(ref)) != nil
		if !exists && !gone || s.awaits(key, node.Annotations[key], set, since.Add(MarkersStay), now) ||
			s.perhapsForeign(key, node.Annotations[key], set, now) {
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
			s.sweepClaim(node, key, known)
			s.sweepMark(key, value)
			s.sweepPublished(key, value)
		} else if heir := heirOf(value, set); heir != nil {
			s.Node.Annotations[heir.MarkerKey()] = marker(heir)
		}
	}
	return s
}

// sweepClaim notes the taint of a record. A kubelet may register its node with a taint and a record in the form that
// admission writes, of a rule that never was, or that never had this taint.
func (s *Swept) sweepClaim(node *corev1.Node, key string, known Known) {
	t, claims := nodeview.ClaimIn(node.Annotations[key])
	switch {
	case !claims:
	case known != nil && doubtful(node, key, known):
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
	s.recheck(until)
	return true
}

// foreignRecheck is how often to look again while the rules of another controller have not been read.
const foreignRecheck = time.Minute

// perhapsForeign reports whether an annotation is a record of a taint that another controller may manage by now: a user
// may have removed the rule to hand the taint over.
func (s *Swept) perhapsForeign(key, value string, set *ruleset.Set, now time.Time) bool {
	t, claims := nodeview.ClaimIn(value)
	if !claims || !strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) || !set.PerhapsForeign(&t) {
		return false
	}
	s.recheck(now.Add(foreignRecheck))
	return true
}

func (s *Swept) recheck(at time.Time) {
	if s.RecheckAt.IsZero() || at.Before(s.RecheckAt) {
		s.RecheckAt = at
	}
}

// sweepMark removes the annotation by which a deleted rule handed the node over for replacement.
func (s *Swept) sweepMark(key, value string) {
	r, _ := nodeview.ReadRecord(value)
	if annotation, ok := marks(s.Node.Annotations, key, r.Mark); ok {
		delete(s.Node.Annotations, annotation)
	}
}

// sweepPublished keeps the record of a deleted rule until the condition that the rule published is removed.
func (s *Swept) sweepPublished(key, value string) {
	r, ok := nodeview.ReadRecord(value)
	if !ok || !ruleset.Publishable(r.Published) || nodeview.Published(s.Node, r.Published) == nil {
		return
	}
	for other, v := range s.Node.Annotations {
		if strings.HasPrefix(other, v1alpha1.RecordAnnotationPrefix) {
			if o, _ := nodeview.ReadRecord(v); o.Published == r.Published {
				return
			}
		}
	}
	s.Published = append(s.Published, r.Published)
	s.Node.Annotations[key] = nodeview.Record{Rule: r.Rule, Published: r.Published}.Encode()
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

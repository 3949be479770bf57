// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
)

// maxAdmissionBytes bounds the object with the rules for admission, far below what etcd accepts, and so far that the
// policy's expressions never cost more than the API server allows.
const maxAdmissionBytes = 256 << 10

// AtAdmission reports whether the rule taints nodes at admission.
func (r *Rule) AtAdmission() bool {
	return r.Mode == Enforced && r.Taint != nil && r.Spec.NodeAdmission != v1alpha1.NodeAdmissionNone
}

// Listed is a rule as the object with the rules for admission lists it.
type Listed struct {
	Selector []admissionv1alpha1.Requirement
	Line     string
}

// The columns of a line.
const (
	columnUID = iota
	columnSince
	columnName
	columnKey
	columnValue
	columnEffect
	columns
)

// Listed returns a rule as admission needs it.
func (r *Rule) Listed() Listed {
	out := Listed{Line: strings.Join([]string{string(r.UID), r.InForceSince.UTC().Format(time.RFC3339), r.Name,
		r.Taint.Key, r.Taint.Value, string(r.Taint.Effect)}, ",")}
	s := &r.Spec.NodeSelector
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		out.Selector = append(out.Selector, admissionv1alpha1.Requirement{Key: key,
			Operator: string(metav1.LabelSelectorOpIn), Values: []string{string(s.MatchLabels[key])}})
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		required := admissionv1alpha1.Requirement{Key: e.Key, Operator: string(e.Operator)}
		for _, v := range e.Values {
			required.Values = append(required.Values, string(v))
		}
		out.Selector = append(out.Selector, required)
	}
	return out
}

// List returns the rules of an object, by their UID.
func List(object *admissionv1alpha1.AdmissionRules) map[string]Listed {
	out := map[string]Listed{}
	for i := range object.Groups {
		for _, line := range object.Groups[i].Rules {
			uid, _, _ := strings.Cut(line, ",")
			out[uid] = Listed{object.Groups[i].Selector, line}
		}
	}
	return out
}

// undecided reports whether what admission does for the rule stays as it is: while its evidence is being read, and
// while the served CRD is not ours, when the operator changes nothing.
func (r *Rule) undecided() bool {
	return r.Pending() || r.Mode == Frozen && slices.ContainsFunc(r.Problems, func(p Problem) bool {
		return p.Reason == ReasonForeignCRD
	})
}

// CheckGroup returns an error if an installation serves another API group than this process. object is what that
// installation has written. In another group, its rules are unknown: their taints would be removed from all nodes.
func CheckGroup(object *admissionv1alpha1.AdmissionRules) error {
	switch group, known := v1alpha1.GroupOf(object.MarkerPrefix); {
	case !known:
		return fmt.Errorf("admissionrules %s: markerPrefix %q is of no API group that this version knows", object.Name,
			object.MarkerPrefix)
	case group != v1alpha1.Served().Name:
		return fmt.Errorf("the API group of Nodegate in this cluster is %s, not %s: set --api-group=%[1]s (apiGroup in the "+
			"chart, CONFIG for make), or change the group with kubectl nodegate convert --live (docs/change-api-group.md)",
			group, v1alpha1.Served().Name)
	}
	return nil
}

// ForAdmission returns the object with what the set says about admission, and the UIDs of the rules that have no room
// there. The oldest have room first. before is the object as it is, or nil. What it says of a rule that is undecided
// stays.
func (s *Set) ForAdmission(before *admissionv1alpha1.AdmissionRules) (after *admissionv1alpha1.AdmissionRules,
	left []string) {
	if before == nil {
		before = &admissionv1alpha1.AdmissionRules{}
	}
	after = before.DeepCopy()
	after.Name, after.Groups, after.Frozen = admissionv1alpha1.Name, nil, nil
	after.MarkerPrefix = v1alpha1.Served().MarkerPrefix
	known, listed, size := List(before), []Listed(nil), 0
	for _, r := range s.rules {
		uid := string(r.UID)
		if r.Mode == Frozen && len(after.Frozen) < admissionv1alpha1.MaxRules &&
			(!r.undecided() || slices.Contains(before.Frozen, uid)) {
			after.Frozen = append(after.Frozen, uid)
		}
		rule, there := known[uid]
		if r.AtAdmission() {
			rule = r.Listed()
		} else if !there || !r.undecided() {
			continue
		}
		more := rule.size()
		if size+more > maxAdmissionBytes || len(listed) == admissionv1alpha1.MaxRules {
			left = append(left, uid)
			continue
		}
		listed, size = append(listed, rule), size+more
	}
	after.Groups = group(listed)
	return after, left
}

// group makes one group of the rules with the same selector, since the policy evaluates the selector of each group. But
// rules whose taint other rules have, too, follow each other, the oldest first, as the policy expects.
func group(listed []Listed) (out []admissionv1alpha1.RuleGroup) {
	number := map[string]int{}
	for i := range listed {
		number[listed[i].taint()]++
	}
	shared := func(l *Listed) string {
		if taint := l.taint(); number[taint] > 1 {
			return taint
		}
		return ""
	}
	slices.SortStableFunc(listed, func(a, b Listed) int { return strings.Compare(shared(&a), shared(&b)) })
	groups, last := map[string]int{}, "" // by the selector
	for i := range listed {
		l := &listed[i]
		selector := fmt.Sprintf("%q", l.Selector)
		at, there := groups[selector]
		if shared(l) != "" { // only the last group can go on
			at, there = len(out)-1, i > 0 && shared(&listed[i-1]) != "" && selector == last
		}
		if !there {
			at = len(out)
			groups[selector], out = at, append(out, admissionv1alpha1.RuleGroup{Selector: l.Selector})
		}
		out[at].Rules, last = append(out[at].Rules, l.Line), selector
		l.prepare(&out[at], shared(l) == "")
	}
	return out
}

// prepare adds what the rule adds to a new node. If other rules have the same taint, only the policy knows whose value
// the node gets.
func (l *Listed) prepare(group *admissionv1alpha1.RuleGroup, alone bool) {
	words := strings.Split(l.Line, ",")
	if len(words) < columns {
		return
	}
	if group.Records == nil {
		group.Records = map[string]admissionv1alpha1.Record{}
	}
	taint := admissionv1alpha1.Taint{Key: words[columnKey], Value: words[columnValue], Effect: words[columnEffect]}
	// As nodeview.Record is encoded. No part of it needs to be escaped.
	group.Records[v1alpha1.RecordAnnotationPrefix+words[columnUID]] = admissionv1alpha1.Record(fmt.Sprintf(
		`{"rule":"%s","taint":"%s=%s:%s"}`, words[columnName], taint.Key, taint.Value, taint.Effect))
	if alone {
		group.Taints = append(group.Taints, taint)
	}
}

// taint returns the key and the effect of the rule's taint.
func (l *Listed) taint() string {
	words := strings.Split(l.Line, ",")
	if len(words) < columns {
		return "" // only a person can have written it
	}
	return words[columnKey] + ":" + words[columnEffect]
}

// size returns about how many bytes a rule, its selector, record and taint have as JSON.
func (l *Listed) size() int {
	const fields, fieldsOfRequirement, quotes = 160, 30, 3
	n := fields + 2*len(l.Line)
	for i := range l.Selector {
		n += fieldsOfRequirement + len(l.Selector[i].Key) + len(l.Selector[i].Operator)
		for _, v := range l.Selector[i].Values {
			n += quotes + len(v)
		}
	}
	return n
}

// AdmissionRule is a compiled rule of an AdmissionRules.
type AdmissionRule struct {
	Name, UID string
	Taint     corev1.Taint
	// since is when the rule was put in force.
	since    time.Time
	selector labels.Selector
}

// CompileAdmission compiles the rules of an AdmissionRules. It leaves out what only a person can have written: a rule
// with an invalid selector, or without a part.
func CompileAdmission(object *admissionv1alpha1.AdmissionRules) (out []AdmissionRule) {
	for i := range object.Groups {
		selector := metav1.LabelSelector{}
		for _, r := range object.Groups[i].Selector {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: r.Key,
				Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values})
		}
		compiled, err := metav1.LabelSelectorAsSelector(&selector)
		if err != nil || compiled.Empty() {
			continue
		}
		for _, line := range object.Groups[i].Rules {
			words := strings.Split(line, ",")
			if len(words) < columns {
				continue
			}
			since, err := time.Parse(time.RFC3339, words[columnSince])
			if err != nil {
				continue
			}
			out = append(out, AdmissionRule{Name: words[columnName], UID: words[columnUID], since: since, selector: compiled,
				Taint: corev1.Taint{Key: words[columnKey], Value: words[columnValue],
					Effect: corev1.TaintEffect(words[columnEffect])}})
		}
	}
	return out
}

// Matches reports whether the rule selects a node with these labels.
func (r *AdmissionRule) Matches(nodeLabels map[string]string) bool {
	return r.selector.Matches(labels.Set(nodeLabels))
}

// Existing reports whether a node existed before the rule was put in force.
func (r *AdmissionRule) Existing(node *corev1.Node) bool {
	return node.CreationTimestamp.Time.Before(r.since)
}

// RecordKey returns the key of the annotation with this rule's record.
func (r *AdmissionRule) RecordKey() string { return v1alpha1.RecordAnnotationPrefix + r.UID }

// Completed reports whether a node has completed this rule.
func (r *AdmissionRule) Completed(node *corev1.Node) bool {
	_, marked := node.Annotations[v1alpha1.Served().MarkerPrefix+r.UID]
	_, oldMarked := node.Annotations[v1alpha1.Served().MarkerPrefix+r.Name]
	return marked || oldMarked
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
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

// ForAdmission returns a rule as admission needs it.
func (r *Rule) ForAdmission() admissionv1alpha1.AdmissionRule {
	out := admissionv1alpha1.AdmissionRule{Name: r.Name, UID: string(r.UID), Since: metav1.NewTime(r.InForceSince),
		Key: r.Taint.Key, Value: r.Taint.Value, Effect: string(r.Taint.Effect),
		// As nodeview.Record is encoded. No part of it needs to be escaped.
		Record: fmt.Sprintf(`{"rule":"%s","taint":"%s=%s:%s"`, r.Name, r.Taint.Key, r.Taint.Value, r.Taint.Effect)}
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
			"chart). To change the group, delete all rules, uninstall Nodegate, and run kubectl delete admissionrules %[3]s",
			group, v1alpha1.Served().Name, object.Name)
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
	after, size := before.DeepCopy(), 0
	after.Name, after.Rules, after.Frozen = admissionv1alpha1.Name, nil, nil
	after.MarkerPrefix = v1alpha1.Served().MarkerPrefix
	for _, r := range s.rules {
		uid := string(r.UID)
		if r.Mode == Frozen && len(after.Frozen) < admissionv1alpha1.MaxRules &&
			(!r.undecided() || slices.Contains(before.Frozen, uid)) {
			after.Frozen = append(after.Frozen, uid)
		}
		var rule *admissionv1alpha1.AdmissionRule
		switch {
		case r.AtAdmission():
			rule = new(r.ForAdmission())
		case r.undecided():
			rule = find(before.Rules, uid)
		}
		if rule == nil {
			continue
		}
		more := sizeOf(rule)
		if size+more > maxAdmissionBytes || len(after.Rules) == admissionv1alpha1.MaxRules {
			left = append(left, uid)
			continue
		}
		after.Rules, size = append(after.Rules, *rule), size+more
	}
	slices.SortStableFunc(after.Rules, byTaint)
	return after, left
}

func find(rules []admissionv1alpha1.AdmissionRule, uid string) *admissionv1alpha1.AdmissionRule {
	for i := range rules {
		if rules[i].UID == uid {
			return &rules[i]
		}
	}
	return nil
}

// byTaint compares rules by their taint.
func byTaint(a, b admissionv1alpha1.AdmissionRule) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Effect, b.Effect))
}

// sizeOf returns about how many bytes a rule has as JSON.
func sizeOf(r *admissionv1alpha1.AdmissionRule) int {
	const fields, fieldsOfRequirement, quotes = 160, 30, 3
	n := fields + len(r.Name) + len(r.UID) + len(r.Key) + len(r.Value) + len(r.Effect) + len(r.Record)
	for i := range r.Selector {
		n += fieldsOfRequirement + len(r.Selector[i].Key) + len(r.Selector[i].Operator)
		for _, v := range r.Selector[i].Values {
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

// CompileAdmission compiles the rules of an AdmissionRules. It leaves out a rule with an invalid selector, which only a
// person can have written.
func CompileAdmission(rules []admissionv1alpha1.AdmissionRule) []AdmissionRule {
	out := make([]AdmissionRule, 0, len(rules))
	for i := range rules {
		r := &rules[i]
		selector := metav1.LabelSelector{}
		for _, s := range r.Selector {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: s.Key,
				Operator: metav1.LabelSelectorOperator(s.Operator), Values: s.Values})
		}
		compiled, err := metav1.LabelSelectorAsSelector(&selector)
		if err != nil || compiled.Empty() {
			continue
		}
		out = append(out, AdmissionRule{Name: r.Name, UID: r.UID, since: r.Since.Time, selector: compiled,
			Taint: corev1.Taint{Key: r.Key, Value: r.Value, Effect: corev1.TaintEffect(r.Effect)}})
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

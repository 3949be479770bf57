// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// What admission lets a node have at most. Otherwise the policies in config/components/record-guard or the API server
// would refuse the request: they limit what kubelets write.
const (
	maxClaims          = 200
	maxTaints          = 250
	maxAnnotations     = 500
	maxAnnotationBytes = 192 << 10
	// maxRecord is how many bytes the record of a new claim and its key have at most, besides what is from the rule.
	maxRecord = 100
)

// Admission is what a webhook adds to a request that makes a node match rules.
type Admission struct {
	// Patch is a JSON Patch (RFC 6902) for the object of the request, or nil if there is nothing to add.
	Patch []byte
	// Claims is how many rules claim the node.
	Claims int
}

// Admit adds the taint and the record of each rule that a request makes the node match. The request creates the node if
// old is nil; otherwise it updates the node. A taint that the request has stays as it is. Records that the creator of a
// node brings are dropped, but for claims as in claimedBefore. If the node lacks room for the taints and records of all
// rules, no rule claims it.
//
// The admission policy in config/node-admission-policy decides in the same way, and is tested with the same cases.
func Admit(rules []ruleset.AdmissionRule, old, node *corev1.Node, now time.Time) Admission {
	a := Admission{}
	taints := slices.Clone(node.Spec.Taints)
	annotations := maps.Clone(node.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	if old == nil {
		maps.DeleteFunc(annotations, func(key, value string) bool {
			return strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) && !claimedBefore(rules, node, key, value)
		})
	}
	since := now.Truncate(time.Second)
	if old == nil { // it is created a moment later; a time before that would be taken for a forged one
		since = since.Add(time.Second)
	}
	var claims []*ruleset.AdmissionRule
	room := min(MaxAnnotations, maxAnnotationBytes) - sizeOf(annotations)
	for i := range rules {
		if rule := &rules[i]; admits(rule, old, node) {
			claims = append(claims, rule)
			room -= maxRecord + len(rule.UID) + len(rule.Name) + len(rule.Taint.Key) + len(rule.Taint.Value)
		}
	}
	if n := len(claims); n > maxClaims || len(taints)+n > maxTaints || len(annotations)+n > maxAnnotations || room < 0 {
		claims = nil
	}
	for _, rule := range claims {
		annotations[rule.RecordKey()] = nodeview.Record{Rule: rule.Name, Taint: nodeview.FormatTaint(rule.Taint),
			Since: metav1.NewTime(since)}.Encode()
		if nodeview.Find(&corev1.Node{Spec: corev1.NodeSpec{Taints: taints}}, &rule.Taint) == nil {
			taints = append(taints, rule.Taint)
		}
	}
	a.Claims = len(claims)
	a.Patch = admissionPatch(node, taints, annotations)
	return a
}

// claimedBefore reports whether a record is what admission writes for a rule that does not match a new node, which has
// the rule's taint: the rule matched until another policy or webhook labelled the node. The controller removes both.
func claimedBefore(rules []ruleset.AdmissionRule, node *corev1.Node, key, value string) bool {
	i := slices.IndexFunc(rules, func(r ruleset.AdmissionRule) bool { return r.RecordKey() == key })
	if i < 0 || rules[i].Matches(node.Labels) || nodeview.Find(node, &rules[i].Taint) == nil {
		return false
	}
	r, ok := nodeview.ReadRecord(value)
	claim := nodeview.Record{Rule: rules[i].Name, Taint: nodeview.FormatTaint(rules[i].Taint), Since: r.Since}
	return ok && value == claim.Encode()
}

// admits reports whether the request makes the node match the rule, so that the rule claims its taint.
func admits(rule *ruleset.AdmissionRule, old, node *corev1.Node) bool {
	if !rule.Matches(node.Labels) || rule.Completed(node) {
		return false
	}
	if old == nil {
		return true
	}
	// An existing node may be in service. The controller decides about it, because only the controller knows
	// unreadySeconds and the limit. Even a short NoExecute taint would evict running pods.
	_, recorded := node.Annotations[rule.RecordKey()]
	return !rule.Matches(old.Labels) && node.DeletionTimestamp.IsZero() && !rule.Existing(node) && !recorded &&
		reportedAge(node) <= nodeview.ServiceAge &&
		rule.Taint.Effect != corev1.TaintEffectNoExecute && nodeview.Find(node, &rule.Taint) == nil
}

// reportedAge returns the age of a node when kubelet last reported Ready, or 0 if it has not. The admission policy has
// no clock, so neither engine uses the current time.
func reportedAge(node *corev1.Node) time.Duration {
	if c := condition.Find(node, string(corev1.NodeReady)); c != nil && !c.LastHeartbeatTime.IsZero() {
		return c.LastHeartbeatTime.Sub(node.CreationTimestamp.Time)
	}
	return 0
}

// admissionPatch returns the patch for the object of a request. It has no test operations, because no other client can
// write that object meanwhile.
func admissionPatch(node *corev1.Node, taints []corev1.Taint, annotations map[string]string) []byte {
	var ops []operation
	if !ruleset.SameTaints(node.Spec.Taints, taints) {
		ops = append(ops, operation{Op: "add", Path: "/spec/taints", Value: taints})
	}
	for _, op := range annotationChanges(node.Annotations, annotations) {
		if op.Op != "test" {
			ops = append(ops, op)
		}
	}
	return encode(ops)
}

// AdmittedByPolicy reports whether a rule's claim on a node was made by the admission policy, which has no clock.
func AdmittedByPolicy(rule *ruleset.Rule, node *corev1.Node) bool {
	_, value, _ := nodeview.RecordOn(rule, node)
	r, ok := nodeview.ReadRecord(value)
	return ok && r.Taint != "" && r.Since.IsZero()
}

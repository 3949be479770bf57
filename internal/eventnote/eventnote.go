// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eventnote is what all who record events have in common: how long a note may be, and references to what events are
// about. It records none.
package eventnote

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// maxLength is how long an event's note may be; the API server refuses longer ones.
const maxLength = 1024

// Format formats a note, and cuts it where it is too long.
func Format(format string, args ...any) string {
	note := fmt.Sprintf(format, args...)
	if len(note) <= maxLength {
		return note
	}
	return strings.ToValidUTF8(note[:maxLength-3], "") + "..."
}

// Pod refers to a pod.
func Pod(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// Node refers to a node.
func Node(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}

// Rule refers to a rule.
func Rule(rule *ruleset.Rule) *v1alpha1.NodeReadinessRule {
	return &v1alpha1.NodeReadinessRule{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeReadinessRule"},
		ObjectMeta: metav1.ObjectMeta{Name: rule.Name, UID: rule.UID},
	}
}

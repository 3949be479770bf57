// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeWrapper wraps a Node.
type NodeWrapper struct{ corev1.Node }

// MakeNode starts a Node. It has no UID and no times: an API server gives them.
func MakeNode(name string) *NodeWrapper {
	return &NodeWrapper{corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

// WrapNode goes on from a node that is there. The node is copied.
func WrapNode(node *corev1.Node) *NodeWrapper { return &NodeWrapper{*node.DeepCopy()} }

// Obj is the node.
func (n *NodeWrapper) Obj() *corev1.Node { return n.DeepCopy() }

// UID sets the UID.
func (n *NodeWrapper) UID(uid string) *NodeWrapper {
	n.Node.UID = types.UID(uid)
	return n
}

// Created sets the time of creation.
func (n *NodeWrapper) Created(t time.Time) *NodeWrapper {
	n.CreationTimestamp = metav1.NewTime(t)
	return n
}

// Terminating makes the node one that is being deleted, and waits for a finalizer.
func (n *NodeWrapper) Terminating(t time.Time) *NodeWrapper {
	n.DeletionTimestamp = &metav1.Time{Time: t}
	n.Finalizers = append(n.Finalizers, "example.com/tests")
	return n
}

// Label sets a label.
func (n *NodeWrapper) Label(key, value string) *NodeWrapper {
	metav1.SetMetaDataLabel(&n.ObjectMeta, key, value)
	return n
}

// Unlabel removes a label.
func (n *NodeWrapper) Unlabel(key string) *NodeWrapper {
	delete(n.Labels, key)
	return n
}

// Annotation sets an annotation.
func (n *NodeWrapper) Annotation(key, value string) *NodeWrapper {
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value)
	return n
}

// Unannotate removes an annotation.
func (n *NodeWrapper) Unannotate(key string) *NodeWrapper {
	delete(n.Annotations, key)
	return n
}

// Taint appends a taint.
func (n *NodeWrapper) Taint(key, value string, effect corev1.TaintEffect) *NodeWrapper {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	return n
}

// Untaint removes the taints of a key.
func (n *NodeWrapper) Untaint(key string) *NodeWrapper {
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	return n
}

// Cordoned makes the node unschedulable.
func (n *NodeWrapper) Cordoned() *NodeWrapper {
	n.Spec.Unschedulable = true
	return n
}

// Condition sets a condition that has been as it is since, and was reported then for the last time.
func (n *NodeWrapper) Condition(conditionType string, status corev1.ConditionStatus, since time.Time) *NodeWrapper {
	c := n.condition(conditionType)
	c.Status = status
	c.LastTransitionTime, c.LastHeartbeatTime = metav1.NewTime(since), metav1.NewTime(since)
	return n
}

// Reason sets the reason and the message of a condition.
func (n *NodeWrapper) Reason(conditionType, reason, message string) *NodeWrapper {
	c := n.condition(conditionType)
	c.Reason, c.Message = reason, message
	return n
}

// Heartbeat sets when a condition was reported for the last time.
func (n *NodeWrapper) Heartbeat(conditionType string, t time.Time) *NodeWrapper {
	n.condition(conditionType).LastHeartbeatTime = metav1.NewTime(t)
	return n
}

// Without removes a condition.
func (n *NodeWrapper) Without(conditionType string) *NodeWrapper {
	n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return string(c.Type) == conditionType
	})
	return n
}

func (n *NodeWrapper) condition(conditionType string) *corev1.NodeCondition {
	is := func(c corev1.NodeCondition) bool { return string(c.Type) == conditionType }
	i := slices.IndexFunc(n.Status.Conditions, is)
	if i < 0 {
		i = len(n.Status.Conditions)
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(conditionType)})
	}
	return &n.Status.Conditions[i]
}

// BootID sets the boot ID.
func (n *NodeWrapper) BootID(id string) *NodeWrapper {
	n.Status.NodeInfo.BootID = id
	return n
}

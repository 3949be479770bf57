// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// operation is one operation of a JSON Patch.
type operation struct {
	Op, Path string
	Value    json.RawMessage
}

// patchNode applies a JSON Patch that tests or changes the UID, the taints, and the annotations of a node, as the
// operator does all the time, and writes nothing else as JSON for that. For other patches, and for one that fails, it
// returns nil: then the whole object says what becomes of it, and why.
func patchNode(of *Object, patch []byte) metav1.Object {
	before, ok := of.Meta.(*corev1.Node)
	var operations []operation
	if !ok || json.Unmarshal(patch, &operations) != nil {
		return nil
	}
	after := &corev1.Node{}
	if err := after.Unmarshal(of.encoded()); err != nil { // this rounds times, as JSON does
		panic(err)
	}
	for i := range operations {
		if !operations[i].applies(after) {
			return nil
		}
	}
	after.ResourceVersion = before.ResourceVersion
	return after
}

var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

// applies carries the operation out, if it is one that can be. What is nil is not in the node's JSON.
func (o *operation) applies(to *corev1.Node) bool {
	const annotations = "/metadata/annotations"
	key, below := strings.CutPrefix(o.Path, annotations+"/")
	switch {
	case below && to.Annotations != nil && !strings.Contains(key, "/"):
		return o.changesOne(to.Annotations, unescaped.Replace(key))
	case o.Path == annotations:
		return o.changesAll(&to.Annotations)
	case o.Path == "/spec/taints":
		return o.changesTaints(&to.Spec.Taints)
	case o.Path == "/metadata/uid":
		return o.Op == "test" && o.is(to.UID)
	}
	return false
}

// null reports whether the operation has no value.
func (o *operation) null() bool { return len(o.Value) == 0 || string(o.Value) == "null" }

// is reports whether the operation's value is this one, byte by byte.
func (o *operation) is(value any) bool {
	raw, err := json.Marshal(value)
	return err == nil && bytes.Equal(raw, o.Value)
}

// changesOne applies the operation to one annotation.
func (o *operation) changesOne(all map[string]string, key string) bool {
	before, there := all[key]
	switch o.Op {
	case "test":
		return there && o.is(before) || !there && o.null()
	case "add":
		var value string
		if o.null() || json.Unmarshal(o.Value, &value) != nil {
			return false
		}
		all[key] = value
		return true
	case "remove":
		delete(all, key)
		return there
	}
	return false
}

// changesAll applies the operation to all annotations.
func (o *operation) changesAll(all *map[string]string) bool {
	switch {
	case o.null():
		return o.Op == "test" && *all == nil
	case o.Op == "test":
		return o.is(*all)
	case o.Op == "add":
		*all = nil
		return json.Unmarshal(o.Value, all) == nil
	}
	return false
}

// changesTaints applies the operation to the taints.
func (o *operation) changesTaints(all *[]corev1.Taint) bool {
	switch {
	case o.Op == "remove":
		there := *all != nil
		*all = nil
		return there
	case o.null():
		return o.Op == "test" && *all == nil
	case o.Op == "test":
		return o.is(*all)
	case o.Op == "add" || o.Op == "replace" && *all != nil:
		*all = nil
		return json.Unmarshal(o.Value, all) == nil
	}
	return false
}

// patchConditions applies a strategic merge patch to the conditions of a node or a pod. Only these are written as JSON
// for that. For other patches, and for one that fails, it returns nil: then the whole object says what becomes of it.
func patchConditions(of *Object, patch []byte) metav1.Object {
	var named map[string]map[string]json.RawMessage
	if json.Unmarshal(patch, &named) != nil {
		return nil
	}
	for part, fields := range named {
		for field := range fields {
			if path := part + "." + field; path != "metadata.uid" && path != "metadata.resourceVersion" &&
				path != "status.conditions" {
				return nil
			}
		}
	}
	switch of.Meta.(type) {
	case *corev1.Node:
		return patchPart(of, patch, func(n *corev1.Node) *[]corev1.NodeCondition { return &n.Status.Conditions })
	case *corev1.Pod:
		return patchPart(of, patch, func(p *corev1.Pod) *[]corev1.PodCondition { return &p.Status.Conditions })
	}
	return nil
}

// patchPart applies a strategic merge patch to the UID, the version and the conditions of an object. It returns nil if
// the patch fails.
func patchPart[T, C any, O interface {
	*T
	metav1.Object
	Unmarshal([]byte) error
}](of *Object, patch []byte, conditions func(O) *[]C) metav1.Object {
	take := func(into, from O) {
		into.SetUID(from.GetUID())
		into.SetResourceVersion(from.GetResourceVersion())
		*conditions(into) = *conditions(from)
	}
	part, patched, after := O(new(T)), O(new(T)), O(new(T))
	take(part, of.Meta.(O))
	raw, err := strategicpatch.StrategicMergePatch(encode(part), patch, part)
	if err != nil || json.Unmarshal(raw, patched) != nil || after.Unmarshal(of.encoded()) != nil {
		return nil
	}
	take(after, patched)
	return after
}

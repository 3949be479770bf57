// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/expression"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/build"
)

// whole is a node with a value in each field that an expression may read.
const whole = `{
	"metadata": {"name": "a", "uid": "u", "labels": {"l": "1"}, "annotations": {"a": "1"},
		"creationTimestamp": "2026-01-02T03:04:05Z"},
	"spec": {"providerID": "p", "podCIDRs": ["10.0.0.0/24"],
		"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
	"status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}, "declaredFeatures": ["F"],
		"conditions": [{"type": "t", "status": "True", "reason": "r", "message": "m"}],
		"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "nodeInfo": {}}}`

// alter calls a function for each field of a value while the same field of an object has another value. It calls it for
// an empty list, too, of which it cannot change anything.
func alter(value, object any, path string, changed func(path string)) {
	field := func(value, object any, name string, set func(any)) {
		switch value.(type) {
		case map[string]any, []any:
			alter(value, object, path+"."+name, changed)
			return
		case bool:
			set(true)
		default:
			set("7") // also a quantity
		}
		changed(path + "." + name)
		set(value)
	}
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			changed(path)
		}
		in, _ := object.(map[string]any)
		for name := range value {
			field(value[name], in[name], name, func(to any) { in[name] = to })
		}
	case []any:
		if len(value) == 0 {
			changed(path)
		}
		in, _ := object.([]any)
		for i := range value {
			field(value[i], in[i], "0", func(to any) { in[i] = to })
		}
	}
}

// TestEachFieldThatAnExpressionReadsIsRelevant, except those that never change, also if the controller has written it.
func TestEachFieldThatAnExpressionReadsIsRelevant(t *testing.T) {
	rule := ruleset.Compile(build.MakeRule("r").UID("r").Selector("l", "1").Evidence(v1alpha1.Requirement{Name: "it",
		CEL: &v1alpha1.CELRequirement{Expression: "node.spec.providerID != ''"}}).Obj(), nil, time.Unix(1, 0))
	r := &Reconciler{Fleet: fleet.New(&world{}, time.Now)}
	r.Fleet.SetRules(ruleset.NewSet(rule), nil, time.Unix(1, 0))
	parse := func(object any) *corev1.Node {
		raw, err := json.Marshal(object)
		node := &corev1.Node{}
		if err == nil {
			err = json.Unmarshal(raw, node)
		}
		if err != nil {
			t.Fatal(err)
		}
		return node
	}
	relevant := func(before, after *corev1.Node) bool {
		r.ownWrites.expect(after)
		return r.Relevant().Update(event.TypedUpdateEvent[*corev1.Node]{ObjectOld: before, ObjectNew: after})
	}
	var object, value any
	before := parse(json.RawMessage(whole))
	raw, err := json.Marshal(expression.ValueOf(before))
	if err == nil {
		err = json.Unmarshal(raw, &value)
	}
	if err != nil || json.Unmarshal([]byte(whole), &object) != nil {
		t.Fatal(err)
	}
	if relevant(before, parse(object)) {
		t.Error("nothing has changed")
	}
	alter(value, object, "node", func(path string) {
		if path == "node.metadata.name" || path == "node.metadata.creationTimestamp" {
			return
		}
		if !relevant(before, parse(object)) {
			t.Errorf("a change of %s is not relevant", path)
		}
	})
}

// TestRoomForARecordIsUsedAtOnce: the event AnnotationsFull asks a user to remove other annotations.
func TestRoomForARecordIsUsedAtOnce(t *testing.T) {
	r, node := settled(1, 0)
	for key := range node.Annotations {
		delete(node.Annotations, key)
	}
	const filler = "example.com/filler"
	node.Annotations[filler] = strings.Repeat("x", taints.MaxAnnotations-len(filler))
	if _, err := r.Reconcile(t.Context(), request(node.Name)); err != nil {
		t.Fatal(err)
	}
	update := event.TypedUpdateEvent[*corev1.Node]{ObjectOld: node,
		ObjectNew: build.WrapNode(node).Annotation(filler, "").Obj()}
	if !r.Relevant().Update(update) {
		t.Error("the operator does not look at a node that has room now")
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// copyOf returns the rule in the other group that continues a rule.
func (m *move) copyOf(rule *unstructured.Unstructured) *unstructured.Unstructured {
	want := &unstructured.Unstructured{Object: map[string]any{"spec": rule.Object["spec"]}}
	want.SetGroupVersionKind(schema.GroupVersionKind{Group: m.to.Name, Version: v1alpha1.Version, Kind: rule.GetKind()})
	want.SetName(rule.GetName())
	want.SetLabels(rule.GetLabels())
	annotations := map[string]string{}
	for k, v := range rule.GetAnnotations() {
		if k != "kubectl.kubernetes.io/last-applied-configuration" { // it has the former group
			annotations[k] = v
		}
	}
	annotations[v1alpha1.SuccessorAnnotation] = string(rule.GetUID())
	want.SetAnnotations(annotations)
	return want
}

// isCopy reports whether a rule has the spec, the labels and the annotations of another one. It may have more.
func isCopy(rule, want *unstructured.Unstructured) bool {
	has := func(have, all map[string]string) bool {
		for k, v := range all {
			if value, ok := have[k]; !ok || value != v {
				return false
			}
		}
		return true
	}
	return equality.Semantic.DeepEqual(rule.Object["spec"], want.Object["spec"]) &&
		has(rule.GetLabels(), want.GetLabels()) && has(rule.GetAnnotations(), want.GetAnnotations())
}

// statusFor returns the status of a rule for its successor: since when it is in force, what its limits count, and what
// it has replaced. The generations in it are those of the successor.
func statusFor(of *predecessor) map[string]any {
	status, _, _ := unstructured.NestedMap(of.rule.Object, "status") // a map by the schema
	if status == nil {
		return nil
	}
	was, is := of.rule.GetGeneration(), of.successor.GetGeneration()
	translate := func(in map[string]any, field string) {
		if generation, ok := in[field].(int64); ok {
			delete(in, field)
			switch {
			case generation == was:
				in[field] = is
			case field == "generation": // it is required
				in[field] = int64(0)
			}
		}
	}
	translate(status, "observedGeneration")
	each := func(field string, fields ...string) {
		items, _, _ := unstructured.NestedSlice(status, fields...)
		for _, item := range items {
			if o, ok := item.(map[string]any); ok {
				translate(o, field)
			}
		}
		if len(items) > 0 {
			_ = unstructured.SetNestedSlice(status, items, fields...) // it was found there
		}
	}
	each("observedGeneration", "conditions")
	each("generation", "replacements", "last")
	return status
}

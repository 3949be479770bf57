// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	want.SetOwnerReferences(slices.DeleteFunc(rule.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return owner.Kind == rule.GetKind() // it would be deleted, and the copy with it
	}))
	annotations := maps.Clone(rule.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	if applied, ok := annotations[lastApplied]; ok {
		delete(annotations, lastApplied)
		if moved := appliedIn(want.GetAPIVersion(), applied); moved != "" {
			annotations[lastApplied] = moved
		}
	}
	annotations[v1alpha1.SuccessorAnnotation] = string(rule.GetUID())
	want.SetAnnotations(annotations)
	return want
}

// lastApplied is the annotation in which "kubectl apply" keeps what it has applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// appliedIn returns the value of lastApplied for a rule of another API version, or "" if it cannot be read. Without the
// annotation, the next "kubectl apply" would print a warning, and would keep fields that are no longer in the file.
func appliedIn(apiVersion, applied string) string {
	o := &unstructured.Unstructured{}
	if o.UnmarshalJSON([]byte(applied)) != nil {
		return ""
	}
	o.SetAPIVersion(apiVersion)
	moved, err := o.MarshalJSON()
	if err != nil {
		return ""
	}
	return string(moved)
}

// own gives a copy the field managers of its predecessor, and reports whether it had others. Otherwise the plugin would
// own all fields: a server-side apply of another value would fail with a conflict, and one of a file without a field
// would keep that field.
func (of *predecessor) own() (changed bool) {
	version := of.successor.GetAPIVersion()
	want := ownersOf(of.rule, version)
	if len(want) == 0 || equality.Semantic.DeepEqual(want, ownersOf(of.successor, version)) {
		return false
	}
	entries, _, _ := unstructured.NestedSlice(of.successor.Object, managedFields...)
	entries = slices.DeleteFunc(entries, func(entry any) bool { return ofObject(entry) != nil })
	_ = unstructured.SetNestedSlice(of.successor.Object, append(entries, want...), managedFields...) // it was found there
	return true
}

var managedFields = []string{"metadata", "managedFields"}

// ofObject returns an entry of managedFields, or nil if it is about a subresource.
func ofObject(entry any) map[string]any {
	owner, _ := entry.(map[string]any)
	if _, ok := owner["subresource"]; ok {
		return nil
	}
	return owner
}

// ownersOf returns the field managers of a rule, for another API version, with the fields that a copy has.
func ownersOf(rule *unstructured.Unstructured, apiVersion string) (owners []any) {
	entries, _, _ := unstructured.NestedSlice(rule.Object, managedFields...)
	keep := func(fields map[string]any, names ...string) {
		maps.DeleteFunc(fields, func(name string, _ any) bool { return !slices.Contains(names, name) })
	}
	for _, entry := range entries {
		owner := ofObject(entry)
		fields, _ := owner["fieldsV1"].(map[string]any)
		keep(fields, "f:metadata", "f:spec")
		metadata, _ := fields["f:metadata"].(map[string]any)
		if keep(metadata, "f:annotations", "f:labels"); len(metadata) == 0 {
			delete(fields, "f:metadata")
		}
		if len(fields) > 0 {
			owner["apiVersion"] = apiVersion
			owners = append(owners, owner)
		}
	}
	return owners
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

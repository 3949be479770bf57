// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/ruleset"
)

// operation is one operation of a JSON Patch, RFC 6902.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// patch returns the JSON Patch that changes a node's taints and annotations to the wanted ones, or nil if nothing
// changes. Its test operations make the API server refuse it with status 422 if the node is another one of the same
// name, or if another client has meanwhile written the taints or one of these annotations. Other changes, such as
// heartbeats, do not matter.
func patch(node *corev1.Node, taints []corev1.Taint, annotations map[string]string) []byte {
	changes := annotationChanges(node.Annotations, annotations)
	if len(changes) == 0 && ruleset.SameTaints(node.Spec.Taints, taints) {
		return nil
	}
	ops := []operation{
		{Op: "test", Path: "/metadata/uid", Value: raw(node.UID)},
		{Op: "test", Path: "/spec/taints", Value: rawTaints(node.Spec.Taints)},
	}
	if !ruleset.SameTaints(node.Spec.Taints, taints) {
		ops = append(ops, taintOperation(node.Spec.Taints, taints))
	}
	return encode(append(ops, changes...))
}

// encode returns a JSON Patch, or nil if it has no operations.
func encode(ops []operation) []byte {
	if len(ops) == 0 {
		return nil
	}
	return raw(ops)
}

func taintOperation(have, want []corev1.Taint) operation {
	switch {
	case len(want) == 0:
		return operation{Op: "remove", Path: "/spec/taints"}
	case len(have) == 0:
		return operation{Op: "add", Path: "/spec/taints", Value: raw(want)}
	}
	return operation{Op: "replace", Path: "/spec/taints", Value: raw(want)}
}

func annotationChanges(have, want map[string]string) []operation {
	if maps.Equal(have, want) {
		return nil
	}
	if len(have) == 0 { // "add" would replace a map that another client has created meanwhile
		return []operation{
			{Op: "test", Path: "/metadata/annotations", Value: null},
			{Op: "add", Path: "/metadata/annotations", Value: raw(want)},
		}
	}
	var ops []operation
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if _, stays := want[key]; !stays {
			ops = append(ops,
				operation{Op: "test", Path: annotationPath(key), Value: raw(have[key])},
				operation{Op: "remove", Path: annotationPath(key)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		before, had := have[key]
		if had && before == want[key] {
			continue
		}
		test := null
		if had {
			test = raw(before)
		}
		ops = append(ops,
			operation{Op: "test", Path: annotationPath(key), Value: test},
			operation{Op: "add", Path: annotationPath(key), Value: raw(want[key])})
	}
	return ops
}

var null = json.RawMessage("null")

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// annotationPath returns the JSON Pointer (RFC 6901) of an annotation, with "~" and "/" escaped.
func annotationPath(key string) string {
	return "/metadata/annotations/" + pointer.Replace(key)
}

func raw(v any) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil { // strings, times and taints: cannot happen
		return null
	}
	return out
}

func rawTaints(taints []corev1.Taint) json.RawMessage {
	if len(taints) == 0 {
		return null
	}
	return raw(taints)
}

// SameInputs reports whether the test operations of a patch have the same result for two versions of a node.
func SameInputs(a, b *corev1.Node) bool {
	return a.UID == b.UID && ruleset.SameTaints(a.Spec.Taints, b.Spec.Taints) &&
		maps.Equal(a.Annotations, b.Annotations)
}

// annotations are the annotations of a node. They are copied before the first change.
type annotations struct {
	values map[string]string
	copied bool
}

func (a *annotations) set(key, value string) {
	a.copy()
	a.values[key] = value
}

func (a *annotations) remove(key string) {
	if _, ok := a.values[key]; ok {
		a.copy()
		delete(a.values, key)
	}
}

func (a *annotations) copy() {
	if a.copied {
		return
	}
	if a.values, a.copied = maps.Clone(a.values), true; a.values == nil {
		a.values = map[string]string{}
	}
}

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

// operation is one operation of a JSON Patch, RFC 6902. A nil value is omitted, as "remove" needs it.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch returns the JSON Patch that changes a node's taints and annotations to the wanted ones, or nil if nothing
// changes. Its test operations make the API server refuse it with status 422 if the node is another one of the same
// name, or if another client has meanwhile written the taints or one of these annotations; or any annotation, if the
// patch replaces the whole map. Other changes, such as heartbeats, do not matter.
//
// added are the keys of the records that claim taints which the patch adds. The patch tests those that stay as they
// are, too: if a stale cache still had the record, the taint would be on the node without a claim, and stay forever.
func patch(node *corev1.Node, taints []corev1.Taint, annotations map[string]string, added []string) []byte {
	changes := annotationChanges(node.Annotations, annotations)
	if len(changes) == 0 && ruleset.SameTaints(node.Spec.Taints, taints) {
		return nil
	}
	ops := []operation{
		{Op: "test", Path: "/metadata/uid", Value: node.UID},
		{Op: "test", Path: "/spec/taints", Value: tested(node.Spec.Taints)},
	}
	for _, key := range added {
		if value, had := node.Annotations[key]; had && annotations[key] == value {
			ops = append(ops, operation{Op: "test", Path: annotationPath(key), Value: value})
		}
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
	out, err := json.Marshal(ops)
	if err != nil { // strings, times and taints: cannot happen
		return nil
	}
	return out
}

func taintOperation(have, want []corev1.Taint) operation {
	switch {
	case len(want) == 0:
		return operation{Op: "remove", Path: "/spec/taints"}
	case len(have) == 0:
		return operation{Op: "add", Path: "/spec/taints", Value: want}
	}
	return operation{Op: "replace", Path: "/spec/taints", Value: want}
}

// wholeMap is the number of changed annotations from which on a patch may replace the whole map of them.
const wholeMap = 16

func annotationChanges(have, want map[string]string) []operation {
	if maps.Equal(have, want) {
		return nil
	}
	if len(have) == 0 { // "add" would replace a map that another client has created meanwhile
		return wholeChange(null, want)
	}
	var ops []operation
	changed, others, paths := 0, 0, 0 // the number of changes, and bytes
	for _, key := range slices.Sorted(maps.Keys(have)) {
		before := have[key]
		after, stays := want[key]
		if stays && before == after {
			others += len(key) + len(before)
			continue
		}
		op := operation{Op: "remove", Path: annotationPath(key)}
		if stays {
			op.Op, op.Value = "add", after
		}
		changed, paths = changed+1, paths+len(op.Path)
		ops = append(ops, operation{Op: "test", Path: op.Path, Value: before}, op)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if _, had := have[key]; !had {
			path := annotationPath(key)
			changed, paths = changed+1, paths+len(path)
			ops = append(ops, operation{Op: "test", Path: path, Value: null}, operation{Op: "add", Path: path, Value: want[key]})
		}
	}
	// The API server applies two operations faster than a hundred. They are also shorter, unless the annotations that do
	// not change are long.
	if changed >= wholeMap && others < paths {
		return wholeChange(have, want)
	}
	return ops
}

// wholeChange replaces the map of annotations, unless another client has written any of them.
func wholeChange(have any, want map[string]string) []operation {
	const path = "/metadata/annotations"
	return []operation{{Op: "test", Path: path, Value: have}, {Op: "add", Path: path, Value: want}}
}

var null = json.RawMessage("null")

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// annotationPath returns the JSON Pointer (RFC 6901) of an annotation, with "~" and "/" escaped.
func annotationPath(key string) string {
	return "/metadata/annotations/" + pointer.Replace(key)
}

// tested returns the value that taints have in a test operation.
func tested(taints []corev1.Taint) any {
	if len(taints) == 0 {
		return null
	}
	return taints
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

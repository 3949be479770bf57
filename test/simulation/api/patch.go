// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeFields are the fields of a node's metadata, spec and status, by their paths in JSON.
var nodeFields = func() map[string][]int {
	out := map[string][]int{}
	for _, of := range jsonFields(reflect.TypeFor[corev1.Node]()) {
		if of.of.Kind() != reflect.Struct {
			continue
		}
		for _, f := range jsonFields(of.of) {
			out["/"+of.name+"/"+f.name] = append(of.index[:1:1], f.index...)
		}
	}
	return out
}()

// named are the fields of a node that a patch names; nil if it names more.
func named(patch jsonpatch.Patch) [][]int {
	var out [][]int
	for _, op := range patch {
		path, err := op.Path()
		parts := strings.SplitN(path, "/", 4)
		if kind := op.Kind(); err != nil || len(parts) < 3 || kind == "move" || kind == "copy" {
			return nil
		}
		index, ok := nodeFields[strings.Join(parts[:3], "/")]
		if !ok {
			return nil
		}
		out = append(out, index)
	}
	return out
}

// patchNode applies a patch to some fields of a node. Only these are written as JSON for that. Without success it
// returns nil: then the whole object says why.
func patchNode(of *Object, patch jsonpatch.Patch) metav1.Object {
	before, ok := of.Meta.(*corev1.Node)
	fields := named(patch)
	if !ok || fields == nil {
		return nil
	}
	part, patched, after := &corev1.Node{}, &corev1.Node{}, &corev1.Node{}
	set := func(to, from *corev1.Node) {
		for _, f := range fields {
			reflect.ValueOf(to).Elem().FieldByIndex(f).Set(reflect.ValueOf(from).Elem().FieldByIndex(f))
		}
	}
	set(part, before)
	raw, err := json.Marshal(part)
	if err == nil {
		raw, err = patch.Apply(raw)
	}
	if err == nil {
		err = json.Unmarshal(raw, patched)
	}
	if err != nil {
		return nil
	}
	if err := after.Unmarshal(of.encoded()); err != nil { // this rounds times, as JSON does
		panic(err)
	}
	after.ResourceVersion = before.ResourceVersion
	set(after, patched)
	return after
}

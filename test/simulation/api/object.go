// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Object is one version of an object. It is never changed.
type Object struct {
	Kind    Kind
	Version int64
	Meta    metav1.Object

	raw    []byte
	wire   []byte
	served int     // the schema that it was stored by
	memo   []memo  // few
	first  *Object // the first version with the same spec, of a rule; nil: it is this one
	key    string
}

// Shared is like Memo, for what is read of the spec of a rule. It is read once for all versions between which only the
// status was written.
func (o *Object) Shared(of string, build func() any) any {
	if o.first != nil {
		o = o.first
	}
	return o.Memo(of, build)
}

// JSON is the object as the API shows it, before pruning.
func (o *Object) JSON() []byte {
	if o.raw == nil {
		o.raw = encode(o.Meta)
	}
	return o.raw
}

// encoded is the object in protobuf, without its version; nil, if it has no type.
func (o *Object) encoded() []byte {
	if o.wire == nil {
		o.wire = marshal(clone(o.Meta))
	}
	return o.wire
}

// Memo is what a reader makes of the object, made once.
func (o *Object) Memo(of string, build func() any) any {
	for i := range o.memo {
		if o.memo[i].of == of {
			return o.memo[i].what
		}
	}
	v := build()
	o.memo = append(o.memo, memo{of, v})
	return v
}

type memo struct {
	of   string
	what any
}

// Key is the object's namespace and name.
func (o *Object) Key() string {
	if o.key == "" {
		o.key = cache.MetaObjectToName(o.Meta).String()
	}
	return o.key
}

func encode(obj metav1.Object) []byte {
	var v any = obj
	if u, ok := obj.(*unstructured.Unstructured); ok {
		v = u.Object
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// marshal writes an object that has no readers yet in protobuf, without its version. Generated code does that much
// faster than JSON is written.
func marshal(obj metav1.Object) []byte {
	typed, ok := obj.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil
	}
	obj.SetResourceVersion("")
	out, err := typed.Marshal()
	if err != nil {
		panic(err)
	}
	return out
}

// changes reports whether an object, which has no readers yet, is another one than before but for its version.
func (o *Object) changes(before *Object) bool {
	if of, ok := o.Meta.(*unstructured.Unstructured); ok {
		of.SetResourceVersion(before.Meta.GetResourceVersion())
		return !equalTree(of.Object, before.Meta.(*unstructured.Unstructured).Object)
	}
	o.wire = marshal(o.Meta)
	return !bytes.Equal(o.wire, before.encoded())
}

// equalTree compares what was decoded without a type. Numbers have several types there.
func equalTree(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		of, ok := b.(map[string]any)
		if !ok || len(a) != len(of) {
			return false
		}
		for key, value := range a {
			if other, there := of[key]; !there || !equalTree(value, other) {
				return false
			}
		}
		return true
	case []any:
		of, ok := b.([]any)
		return ok && slices.EqualFunc(a, of, equalTree)
	case int64:
		return number(a) == number(b)
	case float64:
		return number(a) == number(b)
	}
	return a == b
}

// number is a number of JSON; others are none.
func number(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}

func clone(obj metav1.Object) metav1.Object {
	return obj.(runtime.Object).DeepCopyObject().(metav1.Object)
}

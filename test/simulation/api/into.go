// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Into fills a new struct with the fields of the object that the struct has, as json.Unmarshal does with the object's
// JSON. It is much faster, since most objects are never written as JSON. Maps are shared, and must not be changed.
func (o *Object) Into(out any) { o.IntoBut(out, "") }

// IntoBut does so without one of the outermost fields, which an untyped object has.
func (o *Object) IntoBut(out any, field string) {
	to := reflect.ValueOf(out).Elem()
	if u, ok := o.Meta.(*unstructured.Unstructured); ok {
		tree := u.Object
		if field != "" {
			tree = maps.Clone(tree)
			delete(tree, field)
		}
		planted(to.Type())(to, tree)
		return
	}
	from := reflect.ValueOf(o.Meta).Elem()
	copierOf(to.Type(), from.Type())(to, from)
}

var (
	copiers sync.Map // that were made, by the types

	timeType     = reflect.TypeFor[time.Time]()
	metaTime     = reflect.TypeFor[metav1.Time]()
	texts        = reflect.TypeFor[map[string]string]()
	resourceList = reflect.TypeFor[corev1.ResourceList]()
	marshaler    = reflect.TypeFor[json.Marshaler]()
	unmarshaler  = reflect.TypeFor[json.Unmarshaler]()
)

// jsonField is a field of a struct by its name in JSON.
type jsonField struct {
	name  string
	index []int
	of    reflect.Type
	omits bool // an empty slice or map is left out
}

// jsonFields are the fields of a struct that JSON has, with those of embedded structs.
func jsonFields(t reflect.Type) []jsonField {
	var out []jsonField
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			for _, inner := range jsonFields(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				out = append(out, inner)
			}
		case f.IsExported() && name != "-":
			if name == "" {
				name = f.Name
			}
			out = append(out, jsonField{name, []int{i}, f.Type, strings.Contains(options, "omitempty")})
		}
	}
	return out
}

// called is which of some fields JSON means by a name; -1 if it is none.
func called(fields []jsonField, name string) int {
	if at := slices.IndexFunc(fields, func(f jsonField) bool { return f.name == name }); at >= 0 {
		return at
	}
	return slices.IndexFunc(fields, func(f jsonField) bool { return strings.EqualFold(f.name, name) })
}

// copier fills an empty value with what another one is in JSON.
type copier func(to, from reflect.Value)

// copierOf copies values of one type into those of another one.
func copierOf(to, from reflect.Type) copier {
	if c, ok := copiers.Load([2]reflect.Type{to, from}); ok {
		return c.(copier)
	}
	c := newCopier(to, from)
	copiers.Store([2]reflect.Type{to, from}, c)
	return c
}

func newCopier(to, from reflect.Type) copier {
	switch {
	case from.Kind() == reflect.Pointer:
		inner := copierOf(to, from.Elem())
		return func(to, from reflect.Value) {
			if !from.IsNil() {
				inner(to, from.Elem())
			}
		}
	case to.Kind() == reflect.Pointer:
		inner := copierOf(to.Elem(), from)
		return func(to, from reflect.Value) {
			to.Set(reflect.New(to.Type().Elem()))
			inner(to.Elem(), from)
		}
	case to == timeType && from == metaTime:
		return copyTime
	case to == texts && from == resourceList:
		return copyQuantities
	case reflect.PointerTo(from).Implements(marshaler) || reflect.PointerTo(to).Implements(unmarshaler):
		return copyByJSON
	case to.Kind() == reflect.String && from.Kind() == reflect.String:
		return func(to, from reflect.Value) { to.SetString(from.String()) }
	case isInt(to) && isInt(from):
		return func(to, from reflect.Value) { to.SetInt(from.Int()) }
	case to == from && (to.Kind() == reflect.Bool || to == texts):
		return reflect.Value.Set
	}
	switch [2]reflect.Kind{to.Kind(), from.Kind()} {
	case [2]reflect.Kind{reflect.Slice, reflect.Slice}:
		return copySlice(copierOf(to.Elem(), from.Elem()))
	case [2]reflect.Kind{reflect.Struct, reflect.Struct}:
		return copyFields(to, from)
	}
	return copyByJSON
}

// copyTime copies what JSON has of a time: whole seconds.
func copyTime(to, from reflect.Value) {
	if at := from.Addr().Interface().(*metav1.Time); !at.IsZero() {
		*to.Addr().Interface().(*time.Time) = time.Unix(at.Unix(), 0).UTC()
	}
}

func copyFields(to, from reflect.Type) copier {
	type pair struct {
		to, from []int
		omits    bool
		copier   copier
	}
	var pairs []pair
	all := jsonFields(to)
	for _, f := range jsonFields(from) {
		if at := called(all, f.name); at >= 0 {
			pairs = append(pairs, pair{all[at].index, f.index, f.omits && (f.of.Kind() == reflect.Slice ||
				f.of.Kind() == reflect.Map), copierOf(all[at].of, f.of)})
		}
	}
	return func(to, from reflect.Value) {
		for i := range pairs {
			if value := from.FieldByIndex(pairs[i].from); !pairs[i].omits || value.Len() > 0 {
				pairs[i].copier(to.FieldByIndex(pairs[i].to), value)
			}
		}
	}
}

func copySlice(inner copier) copier {
	return func(to, from reflect.Value) {
		if from.IsNil() {
			return
		}
		n := from.Len()
		to.Set(reflect.MakeSlice(to.Type(), n, n))
		for i := range n {
			inner(to.Index(i), from.Index(i))
		}
	}
}

func copyQuantities(to, from reflect.Value) {
	if from.IsNil() {
		return
	}
	out := map[string]string{}
	for name, q := range from.Interface().(corev1.ResourceList) {
		out[string(name)] = q.String()
	}
	to.Set(reflect.ValueOf(out))
}

func copyByJSON(to, from reflect.Value) {
	if from.CanAddr() {
		from = from.Addr()
	}
	plantByJSON(to, from.Interface())
}

// planter fills an empty value with what was decoded without a type.
type planter func(to reflect.Value, from any)

func planted(to reflect.Type) planter {
	if p, ok := copiers.Load(to); ok {
		return p.(planter)
	}
	inner := newPlanter(to)
	decodes := to != timeType && to != metaTime && reflect.PointerTo(to).Implements(unmarshaler)
	var p planter = func(to reflect.Value, from any) {
		if from != nil || decodes { // null leaves other values empty
			inner(to, from)
		}
	}
	copiers.Store(to, p)
	return p
}

func newPlanter(to reflect.Type) planter {
	switch {
	case to.Kind() == reflect.Pointer:
		inner := planted(to.Elem())
		return func(to reflect.Value, from any) {
			to.Set(reflect.New(to.Type().Elem()))
			inner(to.Elem(), from)
		}
	case to == timeType:
		return func(to reflect.Value, from any) { *to.Addr().Interface().(*time.Time) = parsed(from) }
	case to == metaTime:
		return func(to reflect.Value, from any) { to.Addr().Interface().(*metav1.Time).Time = parsed(from).Local() }
	case reflect.PointerTo(to).Implements(unmarshaler):
	case to.Kind() == reflect.String:
		return func(to reflect.Value, from any) { to.SetString(from.(string)) }
	case to.Kind() == reflect.Bool:
		return func(to reflect.Value, from any) { to.SetBool(from.(bool)) }
	case isInt(to):
		return plantNumber
	case to.Kind() == reflect.Interface:
		return func(to reflect.Value, from any) { to.Set(reflect.ValueOf(from)) }
	case to.Kind() == reflect.Slice && to.Elem().Kind() != reflect.Uint8:
		return plantSlice(planted(to.Elem()))
	case to.Kind() == reflect.Map && to.Key().Kind() == reflect.String:
		return plantMap(planted(to.Elem()))
	case to.Kind() == reflect.Struct:
		return plantFields(to)
	}
	return plantByJSON
}

// plantByJSON is for all that is rare.
func plantByJSON(to reflect.Value, from any) {
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, to.Addr().Interface())
	}
	if err != nil {
		panic(fmt.Sprintf("reading a %s: %v", to.Type(), err))
	}
}

func parsed(from any) time.Time {
	at, err := time.Parse(time.RFC3339, from.(string))
	if err != nil {
		panic(err)
	}
	return at
}

func plantNumber(to reflect.Value, from any) {
	switch from := from.(type) {
	case float64:
		to.SetInt(int64(from))
	case int64:
		to.SetInt(from)
	default:
		panic(fmt.Sprintf("%v is no number", from))
	}
}

func plantSlice(inner planter) planter {
	return func(to reflect.Value, from any) {
		all := from.([]any)
		to.Set(reflect.MakeSlice(to.Type(), len(all), len(all)))
		for i, one := range all {
			inner(to.Index(i), one)
		}
	}
}

func plantMap(inner planter) planter {
	return func(to reflect.Value, from any) {
		all := from.(map[string]any)
		to.Set(reflect.MakeMapWithSize(to.Type(), len(all)))
		for key, one := range all {
			value := reflect.New(to.Type().Elem()).Elem()
			inner(value, one)
			to.SetMapIndex(reflect.ValueOf(key).Convert(to.Type().Key()), value)
		}
	}
}

func plantFields(to reflect.Type) planter {
	all := jsonFields(to)
	planters := make([]planter, len(all))
	for i := range all {
		planters[i] = planted(all[i].of)
	}
	var known atomic.Pointer[map[string]int] // which field it is, by names that were asked for
	known.Store(&map[string]int{})
	return func(to reflect.Value, from any) {
		for key, one := range from.(map[string]any) {
			at, ok := (*known.Load())[key]
			if !ok {
				at = called(all, key)
				more := maps.Clone(*known.Load())
				more[key] = at
				known.Store(&more)
			}
			if at >= 0 {
				planters[at](to.FieldByIndex(all[at].index), one)
			}
		}
	}
}

func isInt(t reflect.Type) bool { return reflect.Zero(t).CanInt() }

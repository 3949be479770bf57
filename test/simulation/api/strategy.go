// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// changed is the object that an update or a patch asks for, before anything is checked.
func (s *Server) changed(r *Request, before *Object) (metav1.Object, error) {
	if r.Verb == "patch" {
		var raw []byte
		var err error
		switch r.Patch {
		case types.JSONPatchType:
			if after := patchNode(before, r.Body); after != nil {
				return after, nil
			}
			var patch jsonpatch.Patch
			if patch, err = jsonpatch.DecodePatch(r.Body); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			if raw, err = patch.Apply(before.JSON()); err != nil {
				return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", r.Kind.Resource(), r.Name,
					err.Error(), 0, false)
			}
		case types.StrategicMergePatchType:
			if r.Kind != Nodes && r.Kind != Pods {
				return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", r.Kind.Resource(), r.Name,
					"", 0, false)
			}
			if after := patchConditions(before, r.Body); after != nil {
				return after, nil
			}
			raw, err = strategicpatch.StrategicMergePatch(before.JSON(), r.Body, before.Meta)
		default:
			if u, ok := before.Meta.(*unstructured.Unstructured); ok {
				var patch map[string]any
				if err := json.Unmarshal(r.Body, &patch); err != nil {
					return nil, apierrors.NewBadRequest(err.Error())
				}
				after := u.DeepCopy()
				merge(after.Object, patch)
				return after, nil
			}
			raw, err = jsonpatch.MergePatch(before.JSON(), r.Body)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		r = &Request{Kind: r.Kind, Name: r.Name, Verb: r.Verb, Body: raw}
	}
	after, err := r.Kind.decode(r)
	switch {
	case err != nil && r.Verb == "patch":
		return nil, invalid(r, "patch", err.Error())
	case err != nil:
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return after, nil
}

// merge applies a merge patch (RFC 7386).
func merge(into, patch map[string]any) {
	for key, value := range patch {
		of, parts := value.(map[string]any)
		switch below, ok := into[key].(map[string]any); {
		case value == nil:
			delete(into, key)
		case !parts:
			into[key] = value
		default:
			if !ok {
				below = map[string]any{}
				into[key] = below
			}
			merge(below, of)
		}
	}
}

// prepareCreate does what the kind's strategy does to a new object.
func prepareCreate(obj metav1.Object) {
	switch o := obj.(type) {
	case *corev1.Node:
		// The admission plugin TaintNodesByCondition.
		for i := range o.Spec.Taints {
			if o.Spec.Taints[i].Key == corev1.TaintNodeNotReady && o.Spec.Taints[i].Effect == corev1.TaintEffectNoSchedule {
				return
			}
		}
		o.Spec.Taints = append(o.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady,
			Effect: corev1.TaintEffectNoSchedule})
	case *corev1.Pod:
		o.Status = corev1.PodStatus{Phase: corev1.PodPending}
		if o.Spec.TerminationGracePeriodSeconds == nil {
			o.Spec.TerminationGracePeriodSeconds = new(int64(30))
		}
	case *appsv1.DaemonSet:
		o.Generation = 1
	case *unstructured.Unstructured:
		delete(o.Object, "status")
		o.SetGeneration(1)
	}
}

// prepareUpdate keeps what a write to this (sub)resource cannot change.
func prepareUpdate(sub string, obj, before metav1.Object) {
	switch o := obj.(type) {
	case *corev1.Node:
		old := before.(*corev1.Node)
		if sub == "status" {
			o.Spec = old.Spec
		} else {
			o.Status = old.Status
		}
	case *corev1.Pod:
		old := before.(*corev1.Pod)
		if sub == "status" {
			o.Spec = old.Spec
		} else {
			o.Status = old.Status
		}
	case *appsv1.DaemonSet:
		o.Generation = before.GetGeneration()
		if !equality.Semantic.DeepEqual(o.Spec, before.(*appsv1.DaemonSet).Spec) {
			o.Generation++
		}
	case *unstructured.Unstructured:
		prepareRule(sub, o, before.(*unstructured.Unstructured))
	}
	obj.SetUID(before.GetUID())
	obj.SetName(before.GetName())
	obj.SetNamespace(before.GetNamespace())
	obj.SetCreationTimestamp(before.GetCreationTimestamp())
	obj.SetDeletionTimestamp(before.GetDeletionTimestamp())
	obj.SetDeletionGracePeriodSeconds(before.GetDeletionGracePeriodSeconds())
}

func prepareRule(sub string, o, old *unstructured.Unstructured) {
	if sub == "status" {
		status, there := o.Object["status"]
		o.Object = maps.Clone(old.Object) // what is below is shared, and only the metadata are written later
		o.Object["metadata"] = maps.Clone(old.Object["metadata"].(map[string]any))
		delete(o.Object, "status")
		if there {
			o.Object["status"] = status
		}
		return
	}
	delete(o.Object, "status")
	if status, there := old.Object["status"]; there {
		o.Object["status"] = status
	}
	o.SetGeneration(old.GetGeneration())
	if !reflect.DeepEqual(o.Object["spec"], old.Object["spec"]) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
}

// identified refuses a write that is about another object, or adds finalizers to one that is being deleted. Custom
// resources are not updated without their version.
func identified(r *Request, obj, before metav1.Object) error {
	_, custom := obj.(*unstructured.Unstructured)
	switch other := obj.GetUID() != "" && obj.GetUID() != before.GetUID(); {
	case other && r.Verb == "patch":
		return invalid(r, "metadata.uid", "field is immutable")
	case other:
		return apierrors.NewConflict(r.Kind.Resource(), r.Name, fmt.Errorf("the UID is that of another object"))
	case custom && obj.GetResourceVersion() == "":
		return invalid(r, "metadata.resourceVersion", "must be specified for an update")
	case before.GetDeletionTimestamp() != nil && slices.ContainsFunc(obj.GetFinalizers(), func(f string) bool {
		return !slices.Contains(before.GetFinalizers(), f)
	}):
		return invalid(r, "metadata.finalizers", "no new finalizers can be added if the object is being deleted")
	}
	return nil
}

func invalid(r *Request, at, why string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: string(r.Kind)}, r.Name,
		field.ErrorList{field.Invalid(field.NewPath(at), nil, why)})
}

// validate refuses what the server would, as far as the operator's writes may come near it.
func (s *Server) validate(r *Request, obj metav1.Object) error {
	if rule, ok := obj.(*unstructured.Unstructured); ok && r.Kind == Rules && r.Sub == "status" {
		if at := s.status.unlisted(rule.Object["status"], "status"); at != "" {
			return invalid(r, at, "unsupported value")
		}
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil
	}
	size := 0
	for key, value := range node.Annotations {
		size += len(key) + len(value)
	}
	if size > MaxAnnotations {
		return invalid(r, "metadata.annotations", "too long")
	}
	seen := map[corev1.Taint]bool{}
	for _, t := range node.Spec.Taints {
		id := corev1.Taint{Key: t.Key, Effect: t.Effect}
		if seen[id] {
			return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), node.Name,
				field.ErrorList{field.Duplicate(field.NewPath("metadata", "taints"), t)})
		}
		seen[id] = true
	}
	return nil
}

// MaxAnnotations is how many bytes the annotations of a node may take. A real server accepts 256 KiB, which would make
// stories slow.
const MaxAnnotations = 4 << 10

// choices are the enums of a schema, and of what is below it; nil, if there are none.
type choices struct {
	of         []structuralschema.JSON
	properties map[string]*choices
	items      *choices
}

func choicesOf(schema *structuralschema.Structural) *choices {
	if schema == nil {
		return nil
	}
	out := &choices{properties: map[string]*choices{}, items: choicesOf(schema.Items)}
	if schema.ValueValidation != nil {
		out.of = schema.ValueValidation.Enum
	}
	for key := range schema.Properties {
		property := schema.Properties[key]
		if of := choicesOf(&property); of != nil {
			out.properties[key] = of
		}
	}
	if len(out.of)+len(out.properties) == 0 && out.items == nil {
		return nil
	}
	return out
}

// unlisted is where a value is none of the enum that its schema has; empty, if there is no such place.
func (c *choices) unlisted(value any, at string) string {
	if c == nil {
		return ""
	}
	if len(c.of) > 0 &&
		!slices.ContainsFunc(c.of, func(of structuralschema.JSON) bool { return of.Object == value }) {
		return at
	}
	switch value := value.(type) {
	case map[string]any:
		for key, of := range value {
			if below := c.properties[key]; below != nil {
				if found := below.unlisted(of, at+"."+key); found != "" {
					return found
				}
			}
		}
	case []any:
		for _, of := range value {
			if found := c.items.unlisted(of, at); found != "" {
				return found
			}
		}
	}
	return ""
}

// gracePeriod is for how long an object that is deleted stays.
func gracePeriod(r *Request, obj metav1.Object) int64 {
	pod, ok := obj.(*corev1.Pod)
	switch {
	case !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return 0
	case r.Grace != nil:
		return *r.Grace
	}
	return *pod.Spec.TerminationGracePeriodSeconds
}

// Definition is a CRD of rules, with its schema as the server uses it.
type Definition struct {
	object *apiextensionsv1.CustomResourceDefinition
	schema *structuralschema.Structural
	status *choices
}

// Define returns a Definition that can be served.
func Define(crd *apiextensionsv1.CustomResourceDefinition) (*Definition, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema, internal, nil); err != nil {
		return nil, fmt.Errorf("converting the schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	status := structural.Properties["status"]
	return &Definition{object: crd, schema: structural, status: choicesOf(&status)}, nil
}

// Serve serves rules by this CRD from now on. It may cut watches so that they have to list again.
func (s *Server) Serve(d *Definition, cut bool) {
	crd := new(*d.object)
	before := s.objects[CRDs][crd.Name]
	crd.Generation = 1
	if before != nil {
		crd.UID, crd.Generation = before.Meta.GetUID(), before.Meta.GetGeneration()+1
		crd.DeletionTimestamp, crd.Finalizers = before.Meta.GetDeletionTimestamp(), before.Meta.GetFinalizers()
	} else {
		s.uids++
		crd.UID = uid(s.uids)
	}
	s.store(CRDs, before, crd)
	s.schema, s.status = d.schema, d.status
	s.served++
	if cut {
		s.cuts = s.served
	}
}

// Serves reports whether there is a CRD of rules.
func (s *Server) Serves() bool { return len(s.objects[CRDs]) > 0 }

// Retire deletes the CRD of rules. Its finalizer deletes all rules, and keeps it until none is left.
func (s *Server) Retire() {
	for _, before := range s.objects[CRDs] {
		crd := clone(before.Meta)
		crd.SetDeletionTimestamp(new(metav1.NewTime(s.Now().UTC().Truncate(time.Second))))
		crd.SetFinalizers([]string{"customresourcecleanup.apiextensions.k8s.io"})
		s.store(CRDs, before, crd)
	}
	for _, name := range slices.Sorted(maps.Keys(s.objects[Rules])) {
		_, _ = s.remove(&Request{Kind: Rules, Name: name}, s.objects[Rules][name])
	}
	s.retired()
}

// retired removes a CRD that is being deleted, once no rule is left.
func (s *Server) retired() {
	for _, crd := range s.objects[CRDs] {
		if crd.Meta.GetDeletionTimestamp() != nil && len(s.objects[Rules]) == 0 {
			s.drop(crd, clone(crd.Meta))
		}
	}
}

// accepts returns an error for a new rule that cannot be stored.
func (s *Server) accepts(k Kind) error {
	if k != Rules {
		return nil
	}
	for _, crd := range s.objects[CRDs] {
		if crd.Meta.GetDeletionTimestamp() == nil {
			return nil
		}
		return apierrors.NewMethodNotSupported(k.Resource(), "create")
	}
	return apierrors.NewNotFound(k.Resource(), "")
}

// prune drops from a rule what the served schema does not have.
func (s *Server) prune(k Kind, obj metav1.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok && k == Rules {
		pruning.Prune(u.Object, s.schema, true)
	}
}

// shown is an object as it is served: rules are kept as they were stored, and pruned when they are read.
func (s *Server) shown(o *Object) *Object {
	if o == nil || o.Kind != Rules || o.served == s.served {
		return o
	}
	type pruned struct {
		served int
		object *Object
	}
	p := o.Memo("shown", func() any { return &pruned{} }).(*pruned)
	if p.served != s.served {
		obj := clone(o.Meta)
		s.prune(o.Kind, obj)
		p.served, p.object = s.served, &Object{Kind: o.Kind, Version: o.Version, Meta: obj}
		if equalTree(obj.(*unstructured.Unstructured).Object, o.Meta.(*unstructured.Unstructured).Object) {
			p.object = o
		}
	}
	return p.object
}

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

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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

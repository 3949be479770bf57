// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/config/crd"
)

const reference = "docs/rule-reference.md"

// fields are the paths of all fields of spec and status, such as spec.conditions[].type.
func fields(t *testing.T) sets.Set[string] {
	t.Helper()
	definition, err := crd.Load()
	if err != nil {
		t.Fatal(err)
	}
	out := sets.New[string]()
	for _, part := range []string{"spec", "status"} {
		schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part]
		walk(part, &schema, out)
	}
	return out
}

func walk(parent string, schema *apiextensionsv1.JSONSchemaProps, out sets.Set[string]) {
	for name := range schema.Properties {
		child := schema.Properties[name]
		path := parent + "." + name
		next := &child
		if child.Items != nil && child.Items.Schema != nil {
			path += "[]"
			next = child.Items.Schema
		}
		out.Insert(path)
		walk(path, next, out)
	}
}

// TestFields holds the reference against the schema.
func TestFields(t *testing.T) {
	documented := sets.New[string]()
	p := open(t, reference)
	for _, part := range []string{"spec", "status"} {
		for path := range p.documented(t, 1, part) {
			documented.Insert(part + "." + path)
		}
	}
	same(t, "fields", reference, fields(t), documented)
}

// TestFieldsAtAGlance holds the first table, which has only the outermost fields.
func TestFieldsAtAGlance(t *testing.T) {
	inCode := sets.New[string]()
	for path := range fields(t) {
		if name, isSpec := strings.CutPrefix(path, "spec."); isSpec {
			name, _, _ = strings.Cut(name, ".")
			inCode.Insert(strings.TrimSuffix(name, "[]"))
		}
	}
	same(t, "fields of the spec", reference, inCode, open(t, reference).documented(t, 1, "At a glance"))
}

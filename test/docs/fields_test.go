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

const (
	reference = "docs/rule-reference.md"
	readme    = "README.md"
	// notYet marks, in a table, what this version refuses.
	notYet = "**not yet"
)

// field is a field of the API.
type field struct {
	path string // as spec.conditions[].type
	// refuses is whether the schema refuses something about it as not supported.
	refuses bool
	// beneath is whether it is part of something that is refused altogether.
	beneath bool
}

// fields are all fields of spec and status, by path.
func fields(t *testing.T) map[string]field {
	t.Helper()
	definition, err := crd.Load()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]field{}
	for _, part := range []string{"spec", "status"} {
		schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part]
		walk(field{path: part}, &schema, out)
	}
	return out
}

func walk(parent field, schema *apiextensionsv1.JSONSchemaProps, out map[string]field) {
	for name := range schema.Properties {
		child := schema.Properties[name]
		f := field{path: parent.path + "." + name, beneath: parent.refuses || parent.beneath}
		for _, v := range child.XValidations {
			f.refuses = f.refuses || strings.Contains(v.Message, "not supported by this version")
		}
		next := &child
		if child.Items != nil && child.Items.Schema != nil {
			f.path += "[]"
			next = child.Items.Schema
		}
		out[f.path] = f
		walk(f, next, out)
	}
}

// TestFields holds the reference against the schema: every field is there, and marked where it is refused.
func TestFields(t *testing.T) {
	inCode, documented := sets.New[string](), sets.New[string]()
	all := fields(t)
	for path := range all {
		inCode.Insert(path)
	}
	p := open(t, reference)
	for _, part := range []string{"spec", "status"} {
		for _, r := range p.tables(t, part) {
			for _, path := range codes(r[0]) {
				path = part + "." + path
				documented.Insert(path)
				f, known := all[path]
				if marked := strings.Contains(strings.Join(r, "|"), notYet); known && marked != f.refuses && !f.beneath {
					t.Errorf("%s: %s: marked %q: %t; refused by the schema: %t", reference, path, notYet, marked, f.refuses)
				}
			}
		}
	}
	same(t, "fields", reference, inCode, documented)
}

// TestReadmeNamesEveryFieldOfTheSpec holds the README's table, which has only the outermost fields.
func TestReadmeNamesEveryFieldOfTheSpec(t *testing.T) {
	inCode, documented := sets.New[string](), sets.New[string]()
	refuses := map[string]bool{}
	for path, f := range fields(t) {
		name, isSpec := strings.CutPrefix(path, "spec.")
		if !isSpec {
			continue
		}
		name, _, _ = strings.Cut(name, ".")
		name = strings.TrimSuffix(name, "[]")
		inCode.Insert(name)
		refuses[name] = refuses[name] || f.refuses
	}
	for _, r := range open(t, readme).tables(t, "The rule") {
		for _, name := range codes(r[0]) {
			documented.Insert(name)
			if marked := strings.Contains(strings.Join(r, "|"), notYet); marked != refuses[name] {
				t.Errorf("%s: %s: marked %q: %t; refused by the schema, in whole or in part: %t", readme, name, notYet, marked, refuses[name])
			}
		}
	}
	same(t, "fields of the spec", readme, inCode, documented)
}

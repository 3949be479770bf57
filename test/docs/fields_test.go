// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/ruleset"
)

const reference = "docs/rule-reference.md"

// fields are the paths of all fields of spec and status, such as spec.conditions[].type.
func fields(t *testing.T) sets.Set[string] {
	t.Helper()
	definition, err := crd.Load()
	must(t, err)
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

// TestFields holds the reference against the schema. Paths in a table are below those of its heading, and a heading
// documents the field that it names.
func TestFields(t *testing.T) {
	documented := sets.New[string]()
	part, parents := "", []string{""}
	for _, line := range open(t, reference).lines {
		if m := heading.FindStringSubmatch(line); m != nil {
			if len(m[1]) == 2 {
				switch m[2] {
				case "At a glance", "On nodes":
					part = ""
				case "status":
					part = "status"
				default:
					part = "spec"
				}
			}
			parents = nil
			for _, path := range codes(m[2]) {
				documented.Insert(part + "." + path)
				parents = append(parents, part+"."+path)
			}
			if len(parents) == 0 {
				parents = []string{part}
			}
			continue
		}
		if part == "" || !strings.HasPrefix(line, "|") {
			continue
		}
		for _, path := range codes(cells(line)[0]) {
			for _, parent := range parents {
				documented.Insert(parent + "." + path)
			}
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

// TestFragments holds the examples of the reference: each is a valid part of a spec.
func TestFragments(t *testing.T) {
	const rest = "{nodeSelector: {matchLabels: {a: b}}, conditions: [{type: Ready, requiredStatus: 'True'}], " +
		"taint: {key: example.com/a, effect: NoSchedule}, enforcementMode: continuous}"
	text := strings.Join(open(t, reference).lines, "\n")
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(text, -1)
	if len(blocks) < 10 {
		t.Fatalf("only %d examples", len(blocks))
	}
	for _, block := range blocks {
		spec := &v1alpha1.NodeReadinessRuleSpec{}
		for _, part := range []string{rest, block[1]} {
			if err := yaml.UnmarshalStrict([]byte(part), spec); err != nil {
				t.Fatalf("%v:\n%s", err, block[1])
			}
		}
		for _, problem := range ruleset.Compile(&v1alpha1.NodeReadinessRule{Spec: *spec}, nil, time.Time{}).Problems {
			t.Errorf("%s:\n%s", problem.Message, block[1])
		}
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/cluster"
)

// plainSpec is a valid spec, which the cases of the tables change.
const plainSpec = `
nodeSelector: {matchLabels: {example.com/pool: workers}}
conditions: [{type: example.com/CNIReady, requiredStatus: "True"}]
taint: {key: readiness.k8s.io/NetworkReady, value: pending, effect: NoSchedule}
enforcementMode: continuous
`

// rule makes a rule of a spec in YAML, in a group of the API.
func rule(t *testing.T, group, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	cluster.Must(t, u.UnmarshalJSON(fmt.Appendf(nil,
		`{"apiVersion":"%s/v1alpha1","kind":"NodeReadinessRule","metadata":{"name":%q},"spec":%s}`, group, name,
		asJSON(t, spec))))
	return u
}

// changed is a spec with a merge patch (RFC 7396) applied, both in YAML: null takes a field away.
func changed(t *testing.T, spec, change string) string {
	t.Helper()
	out, err := jsonpatch.MergePatch(asJSON(t, spec), asJSON(t, change))
	cluster.Must(t, err)
	return string(out)
}

func asJSON(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading YAML: %v\n%s", err, text)
	}
	return raw
}

// notChecked is what the API server adds when a fault of the schema kept it from evaluating the CEL rules.
const notChecked = "some validation rules were not checked because the object was invalid"

// causes are the faults that a refusal names, as "field: reason", sorted. A reason is shortened to the words that are
// wanted of it, if it has them, so that a difference is shown in full. Causes without a field repeat others.
func causes(t *testing.T, err error, want []string) []string {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		t.Fatalf("not refused as invalid: %v", err)
	}
	var out []string
	for _, c := range status.Status().Details.Causes {
		if strings.Contains(c.Message, notChecked) || c.Field == "<nil>" {
			continue
		}
		got := c.Field + ": " + strings.ReplaceAll(c.Message, "map[string]interface {}", "") // as Kubernetes 1.32 prints JSON
		for _, w := range want {
			if field, words, _ := strings.Cut(w, ": "); field == c.Field && strings.Contains(got, words) {
				got = w
			}
		}
		out = append(out, got)
	}
	slices.Sort(out)
	return out
}

// words makes a list of n items for YAML, from a format with %d.
func words(n int, format string) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return strings.Join(out, ", ")
}

// installVariant installs a variant of the CRD, and waits until it is served.
func installVariant(t *testing.T, group string, change func(*apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	cluster.Must(t, server.InstallCRD(variant(t, group, change)))
	// It is discovered a moment before it is served.
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: v1alpha1.Version,
		Kind: "NodeReadinessRuleList"})
	cluster.Eventually(t, "rules of group "+group+" are served", func() error { return kube.List(t.Context(), list) })
}

// variant is the CRD under a group of its own, with its schema changed.
func variant(t *testing.T, group string,
	change func(*apiextensionsv1.JSONSchemaProps)) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out := ours(t)
	out.Name, out.Spec.Group = out.Spec.Names.Plural+"."+group, group
	out.Annotations, out.Spec.Names.ShortNames = nil, nil
	change(out.Spec.Versions[0].Schema.OpenAPIV3Schema)
	return out
}

// asItIs changes nothing.
func asItIs(*apiextensionsv1.JSONSchemaProps) {}

func ours(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	d, err := crd.Load()
	cluster.Must(t, err)
	return d.DeepCopy()
}

// walk calls a function with each schema below and including one, and its path; the children come later.
func walk(path string, s *apiextensionsv1.JSONSchemaProps, f func(path string, s *apiextensionsv1.JSONSchemaProps)) {
	f(path, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		walk(path+"."+name, &p, f)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(path+"[]", s.Items.Schema, f)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(path+"{}", s.AdditionalProperties.Schema, f)
	}
}

// remove deletes a rule, which has no finalizer here.
func remove(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	if err := kube.Delete(t.Context(), u); client.IgnoreNotFound(err) != nil {
		t.Errorf("deleting %s: %v", u.GetName(), err)
	}
}

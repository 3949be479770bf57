// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/nodegate/nodegate/config/crd"
)

// checker checks rules by the definition that comes with this version.
type checker struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	cel        *cel.Validator
}

var theChecker = sync.OnceValues(func() (*checker, error) {
	definition, err := crd.Load()
	if err != nil {
		return nil, err
	}
	props := &apiextensions.JSONSchemaProps{}
	err = apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil)
	if err != nil {
		return nil, fmt.Errorf("converting the schema of rules: %w", err)
	}
	c := &checker{}
	if c.structural, err = structuralschema.NewStructural(props); err != nil {
		return nil, fmt.Errorf("reading the schema of rules: %w", err)
	}
	if c.schema, _, err = validation.NewSchemaValidator(props); err != nil {
		return nil, fmt.Errorf("reading the schema of rules: %w", err)
	}
	c.cel = cel.NewValidator(c.structural, true, celconfig.PerCallLimit)
	return c, nil
})

// Fault is something for which the API server refuses a rule.
type Fault struct{ Field, Message string }

// Check says for what the API server would refuse a rule, by the definition that comes with this version.
func Check(ctx context.Context, rule *unstructured.Unstructured) ([]Fault, error) {
	c, err := theChecker()
	if err != nil {
		return nil, err
	}
	var out []Fault
	if name := rule.GetName(); name == "" {
		out = append(out, Fault{"metadata.name", "must be given"})
	} else if msgs := content.IsDNS1123Subdomain(name); len(msgs) > 0 {
		out = append(out, Fault{"metadata.name", msgs[0]})
	}
	copied := rule.DeepCopy().Object
	unknown := pruning.PruneWithOptions(copied, c.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		out = append(out, Fault{path, "there is no such field"})
	}
	errs := validation.ValidateCustomResource(nil, rule.Object, c.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, rule.Object)...)
	if len(errs) == 0 { // as the API server: expressions are about what has the right types
		celErrs, _ := c.cel.Validate(ctx, nil, c.structural, rule.Object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, celErrs...)
	}
	for _, e := range errs {
		out = append(out, fault(e))
	}
	return out, nil
}

func fault(e *field.Error) Fault { return Fault{Field: e.Field, Message: e.ErrorBody()} }

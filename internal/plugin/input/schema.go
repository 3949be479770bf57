// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/plugin/convert"
)

// checker validates rules by the CRD of this version.
type checker struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	cel        *cel.Validator
}

var theChecker = sync.OnceValues(func() (c checker, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("reading the schema of rules: %w", err)
		}
	}()
	definition, err := crd.Load()
	if err != nil {
		return c, err
	}
	props := &apiextensions.JSONSchemaProps{}
	err = apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil)
	if err != nil {
		return c, err
	}
	if c.structural, err = structuralschema.NewStructural(props); err != nil {
		return c, err
	}
	c.cel = cel.NewValidator(c.structural, true, celconfig.PerCallLimit)
	c.schema, _, err = validation.NewSchemaValidator(props)
	return c, err
})

// Fault is a reason for which the API server refuses a rule.
type Fault struct{ Field, Message string }

// Check validates a rule as the API server does, by the CRD of this version.
func Check(ctx context.Context, rule *unstructured.Unstructured) ([]Fault, error) {
	c, err := theChecker()
	if err != nil {
		return nil, err
	}
	var out []Fault
	if name := rule.GetName(); name == "" {
		out = append(out, Fault{"metadata.name", "is required"})
	} else if msgs := content.IsDNS1123Subdomain(name); len(msgs) > 0 {
		out = append(out, Fault{"metadata.name", msgs[0]})
	}
	track := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	object := rule.DeepCopy().Object
	defaulting.PruneNonNullableNullsWithoutDefaults(object, c.structural)
	for _, path := range pruning.PruneWithOptions(rule.DeepCopy().Object, c.structural, true, track) {
		message := "unknown field"
		if name := convert.Renamed(path); name != "" {
			message += ": its name is " + name + " now, and kubectl nodegate convert rewrites files"
		}
		out = append(out, Fault{path, message})
	}
	errs := validation.ValidateCustomResource(nil, object, c.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, object)...)
	if !slices.ContainsFunc(errs, blocks) {
		more, _ := c.cel.Validate(ctx, nil, c.structural, object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, more...)
	}
	for _, e := range errs {
		out = append(out, Fault{Field: e.Field, Message: e.ErrorBody()})
	}
	return out, nil
}

// Cured returns faults in which a value of the wrong type is one fault, which says what to type.
func Cured(faults []Fault) (out []Fault) {
	cured := sets.New[string]()
	for _, f := range faults {
		switch {
		case strings.HasSuffix(f.Message, `must be of type string: "boolean"`):
			f.Message = "must be a string, and YAML reads this as a boolean: put it in quotes"
			if strings.HasSuffix(f.Field, "Status") { // labels are true rather than True
				f.Message += `, as "True"`
			}
			cured.Insert(f.Field)
		case strings.HasSuffix(f.Message, `must be of type integer: "string"`):
			f.Message = "must be a number without a unit and without quotes, such as 300"
			cured.Insert(f.Field)
		case cured.Has(f.Field): // a value of the wrong type is no value that is allowed, either
			continue
		}
		out = append(out, f)
	}
	return out
}

// blocks reports whether the API server evaluates no expressions after an error: types, sizes and enumerations have to
// be right.
func blocks(e *field.Error) bool {
	return slices.Contains([]field.ErrorType{field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong,
		field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid}, e.Type)
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd carries the CustomResourceDefinitions of Nodegate, as generated.
package crd

import (
	_ "embed"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// AdmissionRules is the name of the CustomResourceDefinition of the rules for admission.
const AdmissionRules = "admissionrules.nodegate.io"

// Name returns the name of the CustomResourceDefinition of rules, in the API group that this process serves.
func Name() string { return NameIn(v1alpha1.Served().Name) }

// NameIn returns the name of the CustomResourceDefinition of rules in an API group.
func NameIn(group string) string { return "nodereadinessrules." + group }

//go:embed bases/readiness.node.x-k8s.io_nodereadinessrules.yaml
var rules []byte

//go:embed bases/nodegate.io_admissionrules.yaml
var admissionRules []byte

var loadRules = sync.OnceValues(func() (*definition, error) { return read(rules) })

// LoadAdmissionRules returns the CustomResourceDefinition of the rules for admission that this version was built with.
// All callers share it: do not change it.
var LoadAdmissionRules = sync.OnceValues(func() (*definition, error) { return read(admissionRules) })

// Load returns the CustomResourceDefinition of rules that this version was built with, in the API group that this
// process serves. The schema is generated once, and is the same in each group. Do not change it: all callers share it.
func Load() (*definition, error) {
	generated, err := loadRules()
	group := v1alpha1.Served()
	if err != nil || generated.Spec.Group == group.Name {
		return generated, err
	}
	out := *generated
	out.Name, out.Spec.Group, out.Spec.Names.ShortNames = Name(), group.Name, []string{group.ShortName}
	return &out, nil
}

type definition = apiextensionsv1.CustomResourceDefinition

func read(manifest []byte) (*definition, error) {
	out := &definition{}
	if err := yaml.UnmarshalStrict(manifest, out); err != nil {
		return nil, fmt.Errorf("reading a CustomResourceDefinition of this version: %w", err)
	}
	return out, nil
}

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
)

// Name is the name of the CustomResourceDefinition of rules. AdmissionRules is that of the rules for admission.
const (
	Name           = "nodereadinessrules.readiness.node.x-k8s.io"
	AdmissionRules = "admissionrules.nodegate.io"
)

//go:embed bases/readiness.node.x-k8s.io_nodereadinessrules.yaml
var rules []byte

//go:embed bases/nodegate.io_admissionrules.yaml
var admissionRules []byte

// Load returns the CustomResourceDefinition of rules that this version was built with, and LoadAdmissionRules that of
// the rules for admission. All callers share them: do not change them.
var (
	Load               = sync.OnceValues(func() (*definition, error) { return read(rules) })
	LoadAdmissionRules = sync.OnceValues(func() (*definition, error) { return read(admissionRules) })
)

type definition = apiextensionsv1.CustomResourceDefinition

func read(manifest []byte) (*definition, error) {
	out := &definition{}
	if err := yaml.UnmarshalStrict(manifest, out); err != nil {
		return nil, fmt.Errorf("reading a CustomResourceDefinition of this version: %w", err)
	}
	return out, nil
}

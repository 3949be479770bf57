// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd carries the CustomResourceDefinition of this API, as generated.
package crd

import (
	_ "embed"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Name is the name of the CustomResourceDefinition.
const Name = "nodereadinessrules.readiness.node.x-k8s.io"

//go:embed bases/readiness.node.x-k8s.io_nodereadinessrules.yaml
var manifest []byte

// Load returns the CustomResourceDefinition that this version was built with. All callers share it: do not change it.
var Load = sync.OnceValues(func() (*apiextensionsv1.CustomResourceDefinition, error) {
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(manifest, out); err != nil {
		return nil, fmt.Errorf("reading the CustomResourceDefinition of this version: %w", err)
	}
	return out, nil
})

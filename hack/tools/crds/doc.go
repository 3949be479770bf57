// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crds pins modules with CRDs of other projects, which tests install. Nothing is built from it.
package crds

import ( // what go mod tidy keeps
	_ "github.com/openshift/api/security/v1"
	_ "sigs.k8s.io/karpenter/pkg/apis"
)

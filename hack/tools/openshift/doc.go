// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openshift pins the API of OpenShift. Tests of the installation read its CRD of SecurityContextConstraints.
// Nothing is built from it.
package openshift

import _ "github.com/openshift/api/security/v1" // what go mod tidy keeps

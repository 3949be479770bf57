// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the object by which the leader tells the admission policy for endpoints on which nodes pods stay
// ready. Only the operator writes it.
//
// +kubebuilder:object:generate=true
// +groupName=nodegate.io
package v1alpha1

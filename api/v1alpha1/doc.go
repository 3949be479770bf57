// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of Nodegate: the NodeReadinessRule, its status, and the names
// (annotations, finalizer, condition types) that Nodegate writes to or reads from nodes.
//
// Defaults are applied when a field is read (see defaults.go), never stored, so that a rule reads back as its
// author wrote it. This package decides nothing and imports nothing of Nodegate.
//
// +kubebuilder:object:generate=true
// +groupName=readiness.node.x-k8s.io
package v1alpha1

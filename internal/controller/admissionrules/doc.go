// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admissionrules writes the AdmissionRules: the leader's decision which rules taint nodes at admission, for the
// admission policy and the webhooks of all replicas.
package admissionrules

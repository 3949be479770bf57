// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pages goes through pages of docs that lead through something step by step, with the manifests and the
// commands that they have, on a local control plane with the real scheduler and controller manager. What is migrated
// from cannot run here: a webhook and an admission policy of equal effect stand in for it.
package pages

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report has what kubectl nodegate says, as typed objects: what "-o json" and "-o yaml" print, and what the
// plugin's texts are made from. Nothing here is served by an API server.
package report

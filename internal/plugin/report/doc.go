// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report has the reports of kubectl nodegate as typed objects, and their text for people. "-o json" and "-o
// yaml" print the objects. No API server serves them.
package report

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rule reconciles the finalizer and the status of rules. It writes the status from the fleet's counts, at most
// once in two seconds for each rule. It calls package handover, and adds no taint.
package rule

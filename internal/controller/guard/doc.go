// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard keeps the eviction guard's webhook in step with the rules: the API server calls it for the users whom rules
// name, and for nobody else. And it knows why a guard cannot be relied on, which the status of the rules then says.
package guard

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package text writes reports for people: the most important thing first, in words.
package text

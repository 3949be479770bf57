// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert edits the text of files of rules: fields that have been renamed, and the API group. It changes only
// these words, so that comments and the form of a file stay. It knows nothing of a cluster, and does not validate.
package convert

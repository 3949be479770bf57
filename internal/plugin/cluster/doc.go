// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster reads from an API server what kubectl nodegate looks at, and says in words what could not be read and what
// to do about it. It writes nothing.
package cluster

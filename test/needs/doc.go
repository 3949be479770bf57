// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package needs is the one gate of tests that need more than Go and the control plane: a command such as haproxy, or
// namespaces of their own. Where that is missing a test says so and is skipped; with CI=true that is a failure. It is
// imported by tests only.
package needs

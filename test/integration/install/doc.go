// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install holds the tests of what a user installs: config/default and the chart are rendered and applied to a
// real API server with RBAC, and the operator's binary runs there as the service account that they make.
package install

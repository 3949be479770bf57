// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard serves a page that shows the fleet in a browser, for kubectl nodegate dashboard. It listens on the
// loopback interface only, reads the cluster with the user's own permissions, and writes nothing.
package dashboard

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package input reads from an API server and from files what kubectl nodegate looks at. Its errors tell what the plugin
// could not read and what to do. It writes nothing.
package input

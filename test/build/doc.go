// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package build builds the objects that tests are about, in one expression each:
//
//	build.MakeNode("n1").Label("pool", "workers").Condition("example.com/CNI", "False", since).Obj()
//
// It is imported by tests only.
package build

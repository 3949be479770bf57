// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testrunner runs the module's tests, shows one line for each package and every failure in full, and
// compares the names that ran with a committed list, so that a test that is lost, filtered out or skipped is a
// failure and not a silence. The last line of its output is the plain count.
//
// It knows nothing about the operator and uses the standard library alone: what judges the tests should not
// break together with them.
package main

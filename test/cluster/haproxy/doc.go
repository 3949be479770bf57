// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package haproxy runs a real HAProxy for tests, tells what it thinks of its servers, by its statistics and its log,
// and sends requests through it. What runs and what is written is a part of a cluster of test/cluster: it goes with it,
// also when everything is killed. It is imported by tests only.
package haproxy

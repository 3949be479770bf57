// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "time"

func adoptOrphans() {}

func endStrays(time.Duration) []string { return nil }

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package simulation

// usual is how many stories a run of all tests plays.
const usual = 2000

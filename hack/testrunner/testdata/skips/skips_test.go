// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package skips

import "testing"

func TestPasses(*testing.T) {}

func TestSkips(t *testing.T) { t.Skip("no reason") }

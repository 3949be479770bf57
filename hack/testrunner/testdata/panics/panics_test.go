// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package panics

import "testing"

func TestPanics(*testing.T) { panic("this is why it panics") }

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nobuild

import "testing"

func TestNever(*testing.T) { undefined() }

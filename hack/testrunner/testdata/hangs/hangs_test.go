// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package hangs

import "testing"

func TestHangs(*testing.T) { select {} }

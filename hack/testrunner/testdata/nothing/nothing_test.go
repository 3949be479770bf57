// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nothing

import (
	"os"
	"testing"
)

// TestMain leaves without running anything, with success: go test says ok.
func TestMain(*testing.M) { os.Exit(0) }

func TestLost(*testing.T) {}

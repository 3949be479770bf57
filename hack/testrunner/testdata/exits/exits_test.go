// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package exits

import (
	"os"
	"testing"
)

func TestExits(*testing.T) { os.Exit(1) }

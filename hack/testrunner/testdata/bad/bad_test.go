// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package bad

import "testing"

func TestFails(t *testing.T) { t.Error("this is why it fails") }

func TestTable(t *testing.T) {
	t.Run("passes", func(*testing.T) {})
	t.Run("fails", func(t *testing.T) { t.Error("this is why the row fails") })
}

func TestParent(t *testing.T) {
	t.Run("passes", func(*testing.T) {})
	t.Error("the parent alone fails")
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package good

import "testing"

func TestPlain(*testing.T) {}

func TestTable(t *testing.T) {
	for _, name := range []string{"holds the taint", "a/b"} {
		t.Run(name, func(*testing.T) {})
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"strings"
	"testing"
)

// TestThePictureOfTheDemoMoves: the README shows each step of a real run, and a still picture to a reader who
// prefers it.
func TestThePictureOfTheDemoMoves(t *testing.T) {
	if !strings.Contains(string(read(t, "README.md")), "(docs/demo.svg)") {
		t.Error("the README does not show the demo")
	}
	picture := string(read(t, "docs/demo.svg"))
	want := []string{"@keyframes", "prefers-reduced-motion: reduce"}
	for open := 1; open <= 10; open++ {
		want = append(want, fmt.Sprintf("%d of 10 nodes", open))
	}
	for _, text := range want {
		if !strings.Contains(picture, text) {
			t.Errorf("docs/demo.svg has no %q: run make picture", text)
		}
	}
}

// TestTheReadmeNamesItsTwoCommands: on a fresh machine they do all that a developer needs.
func TestTheReadmeNamesItsTwoCommands(t *testing.T) {
	readme := string(read(t, "README.md"))
	for _, command := range []string{"make demo", "make test"} {
		if !strings.Contains(readme, command) {
			t.Errorf("the README does not name %q", command)
		}
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import "testing"

func TestClip(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"as long as it may be":              {"12345678", "12345678"},
		"longer":                            {"123456789", "12345..."},
		"longer, and cut within a rune":     {"1234é6789", "1234..."},
		"not valid":                         {"a\xffb", "a\uFFFDb"},
		"too long as soon as it is valid":   {"\xff1\xff2\xff", "\uFFFD1..."},
		"a few bytes that are no rune each": {"\xff\xfe\xfd", "\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Clip(c.text, 8); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

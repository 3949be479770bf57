// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package text bounds texts and lists of names, before they become a part of the operator's own objects, events and
// answers: other clients may have written them. It is pure.
package text

import (
	"fmt"
	"strings"
)

const ellipsis = "..."

// Clip returns a text as valid UTF-8 of at most most bytes. The API server accepts other bytes in many fields, but an
// object that has them never equals the one that was written.
func Clip(s string, most int) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len(ellipsis)], "") + ellipsis
}

// Plural returns a number with a word in the singular or the plural.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Nodes returns how many nodes there are, in words.
func Nodes(n int) string { return Plural(n, "node", "nodes") }

// Few joins the first names for a message, at most most, and adds how many others there are of count.
func Few(names []string, most, count int) string {
	text := strings.Join(names[:min(most, len(names))], ", ")
	if count > most {
		text += fmt.Sprintf(" and %d more", count-most)
	}
	return text
}

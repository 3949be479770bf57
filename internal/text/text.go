// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package text bounds texts that other clients have written, before they become a part of the operator's own objects,
// events and answers. It is pure.
package text

import "strings"

const ellipsis = "..."

// Clip returns a text as valid UTF-8 of at most most bytes. The API server accepts other bytes in many fields, but an
// object that has them never equals the one that was written.
func Clip(s string, most int) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len(ellipsis)], "") + ellipsis
}

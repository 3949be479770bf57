// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// part is a part of a file, and where in the file it begins.
type part struct {
	text  []byte
	start position
}

// escape finds what is escaped in a JSON string. YAML knows neither surrogates nor "\/" there.
var escape = regexp.MustCompile(`\\(?:u[dD][89a-fA-F][0-9a-fA-F]{2}|.)`)

// documents returns the documents of a file in JSON, one after the other, as kubectl reads them. In the text of each,
// what is not YAML is replaced by other characters. A file that is not JSON is one part: its documents have separators.
func documents(text []byte) (parts []part) {
	decoder, at, start := json.NewDecoder(bytes.NewReader(text)), position{1, 1}, int64(0)
	for {
		document := json.RawMessage{}
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) && len(parts) > 0 {
			return parts
		} else if err != nil {
			return []part{{text, position{1, 1}}}
		}
		end := decoder.InputOffset()
		masked := escape.ReplaceAllFunc(text[start:end], func(escaped []byte) []byte {
			switch {
			case len(escaped) == len(`\u0000`):
				return []byte(`\u0020`)
			case escaped[1] == '/':
				return []byte(" /")
			}
			return escaped
		})
		parts = append(parts, part{masked, at})
		at, start = at.after(text[start:end]), end
	}
}

// after returns the position after a text that begins at a position.
func (p position) after(text []byte) position {
	for _, line := range breaks.FindAll(text, -1) {
		if last, _ := utf8.DecodeLastRune(line); strings.ContainsRune("\r\n\u0085\u2028\u2029", last) {
			p = position{p.line + 1, 1}
		} else {
			p.column += utf8.RuneCount(line)
		}
	}
	return p
}

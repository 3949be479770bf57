// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeview

import (
	"encoding/json"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A node has a record for each rule, and each reconcile reads all of them. Records in the form that this package writes
// are read and written without encoding/json, for speed. All other JSON goes through encoding/json. Tests check that
// both agree.

// field is a field of a record: the JSON key, and a *string, *bool or *metav1.Time.
type field struct {
	key   string
	value any
}

// append appends the JSON of a record to a buffer.
func (r *Record) append(b []byte) []byte {
	b = append(b, '{')
	for _, f := range r.fields() {
		before := len(b)
		if b[before-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), f.key...), `":`...)
		switch v := f.value.(type) {
		case *string:
			if *v != "" {
				b = appendText(b, *v)
				continue
			}
		case *bool:
			if *v {
				b = append(b, "true"...)
				continue
			}
		case *metav1.Time:
			if !v.IsZero() {
				b = append(v.UTC().AppendFormat(append(b, '"'), time.RFC3339), '"')
				continue
			}
		}
		b = b[:before] // an empty field is left out
	}
	return append(b, '}')
}

// plain reports whether a character needs no escape in a JSON string.
func plain(c byte) bool {
	return c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if !plain(s[i]) {
			quoted, err := json.Marshal(s)
			if err != nil { // a string: cannot happen
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// read reads a record in the form of append. It returns false for any other text.
func (r *Record) read(s string) bool {
	fields, next := r.fields(), 0
	rest, ok := strings.CutPrefix(s, "{")
	for first := true; ok; first = false {
		if rest == "}" {
			return true
		}
		if !first {
			if rest, ok = strings.CutPrefix(rest, ","); !ok {
				return false
			}
		}
		var key string
		if key, rest, ok = readText(rest); !ok {
			return false
		}
		if rest, ok = strings.CutPrefix(rest, ":"); !ok {
			return false
		}
		for next < len(fields) && fields[next].key != key {
			next++
		}
		if next == len(fields) {
			return false
		}
		switch v := fields[next].value.(type) {
		case *bool:
			rest, ok = strings.CutPrefix(rest, "true")
			*v = true
		case *string:
			*v, rest, ok = readText(rest)
		case *metav1.Time:
			var value string
			if value, rest, ok = readText(rest); ok {
				t, err := time.Parse(time.RFC3339, value)
				ok, v.Time = err == nil, t.Local()
			}
		}
	}
	return false
}

// readJSON reads any other JSON.
func readJSON(value string) (Record, bool) {
	var r Record
	if err := json.Unmarshal([]byte(value), &r); err != nil {
		return Record{}, false
	}
	return r, true
}

// readText reads a quoted string of plain characters.
func readText(s string) (text, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", s, false
	}
	i := 1
	for i < len(s) && plain(s[i]) {
		i++
	}
	if i == len(s) || s[i] != '"' {
		return "", s, false
	}
	return s[1:i], s[i+1:], true
}

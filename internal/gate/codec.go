// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/json"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A node has a record for each rule, and each reconcile reads all of them. Records in the form that this package writes
// are read and written without encoding/json, for speed. All other JSON goes through encoding/json. Tests check that
// both agree.

// append appends the JSON of a record to a buffer.
func (r *Record) append(b []byte) []byte {
	b = append(b, '{')
	start := len(b)
	key := func(name string) {
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name...), `":`...)
	}
	text := func(name, value string) {
		if value != "" {
			key(name)
			b = appendText(b, value)
		}
	}
	flag := func(name string, value bool) {
		if value {
			key(name)
			b = append(b, "true"...)
		}
	}
	when := func(name string, t *metav1.Time) {
		if !t.IsZero() {
			key(name)
			b = append(t.UTC().AppendFormat(append(b, '"'), time.RFC3339), '"')
		}
	}
	text("rule", r.Rule)
	text("taint", r.Taint)
	when("since", &r.Since)
	flag("late", r.Late)
	flag("adopted", r.Adopted)
	flag("limited", r.Limited)
	flag("existing", r.Existing)
	when("released", &r.Released)
	when("timedOut", &r.TimedOut)
	text("bootID", r.BootID)
	when("notBefore", &r.NotBefore)
	when("rearmedAt", &r.RearmedAt)
	when("former", &r.Former)
	flag("starting", r.Starting)
	when("guardedSince", &r.GuardedSince)
	when("guardEnded", &r.GuardEnded)
	text("published", r.Published)
	text("health", string(r.Health))
	flag("missed", r.Missed)
	flag("counted", r.Counted)
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

// field returns a pointer to the field of a record with a JSON key.
func (r *Record) field(key string) (text *string, flag *bool, when *metav1.Time) { //nolint:gocyclo // a case for each
	switch key {
	case "rule":
		return &r.Rule, nil, nil
	case "taint":
		return &r.Taint, nil, nil
	case "since":
		return nil, nil, &r.Since
	case "late":
		return nil, &r.Late, nil
	case "adopted":
		return nil, &r.Adopted, nil
	case "starting":
		return nil, &r.Starting, nil
	case "missed":
		return nil, &r.Missed, nil
	case "counted":
		return nil, &r.Counted, nil
	case "limited":
		return nil, &r.Limited, nil
	case "existing":
		return nil, &r.Existing, nil
	case "released":
		return nil, nil, &r.Released
	case "timedOut":
		return nil, nil, &r.TimedOut
	case "bootID":
		return &r.BootID, nil, nil
	case "notBefore":
		return nil, nil, &r.NotBefore
	case "rearmedAt":
		return nil, nil, &r.RearmedAt
	case "former":
		return nil, nil, &r.Former
	case "guardedSince":
		return nil, nil, &r.GuardedSince
	case "guardEnded":
		return nil, nil, &r.GuardEnded
	case "published":
		return &r.Published, nil, nil
	case "health":
		return (*string)(&r.Health), nil, nil
	}
	return nil, nil, nil
}

// read reads a record in the form of append. It returns false for any other text.
func (r *Record) read(s string) bool {
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
		text, flag, when := r.field(key)
		switch {
		case flag != nil:
			rest, ok = strings.CutPrefix(rest, "true")
			*flag = true
		case text != nil:
			*text, rest, ok = readText(rest)
		case when != nil:
			var value string
			if value, rest, ok = readText(rest); ok {
				t, err := time.Parse(time.RFC3339, value)
				ok, when.Time = err == nil, t.Local()
			}
		default:
			return false
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

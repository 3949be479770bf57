// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit reads what an API server has written down about its requests, while it goes on writing. It is imported by tests
// only.
package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// Read returns the events in the log, as far as E has fields for them. The last line, where it is not written to its end, is for
// another time. A request's line is written when it has been answered: who has the answer may still be ahead of the log.
func Read[E any](path string) ([]E, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []E
	for line := range bytes.Lines(raw) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var e E
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading %s: %w\n%s", path, err, line)
		}
		out = append(out, e)
	}
	return out, nil
}

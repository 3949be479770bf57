// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// ReadAudit returns the events of an API server's audit log, as far as E has fields for them, while the server writes
// it. It ignores a last line without an end. The server answers a request before it writes its line, so a client that
// has the answer may be ahead of the log.
func ReadAudit[E any](path string) ([]E, error) {
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

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
)

// ReadAudit returns the events of an API server's audit log, as far as E has fields for them, while the server writes
// it. It ignores a last line without an end. The server answers a request before it writes its line, so a client that
// has the answer may be ahead of the log.
func ReadAudit[E any](path string) ([]E, error) {
	out, _, err := ReadAuditFrom[E](path, 0)
	return out, err
}

// ReadAuditFrom is ReadAudit for what comes after an offset. It returns the offset from which to go on.
func ReadAuditFrom[E any](path string, offset int64) (out []E, next int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, offset, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.NewSectionReader(f, offset, math.MaxInt64-offset))
	if err != nil {
		return nil, offset, err
	}
	for line := range bytes.Lines(raw) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var e E
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, offset, fmt.Errorf("reading %s: %w\n%s", path, err, line)
		}
		offset += int64(len(line))
		out = append(out, e)
	}
	return out, offset, nil
}

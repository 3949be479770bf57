// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestEveryLineOfTheLogIsJSONWithoutAStackTrace(t *testing.T) {
	out := &bytes.Buffer{}
	o := &options{}
	o.logging.DestWriter = out
	setLogger(o.newLogger())
	err := errors.New("connection refused")
	klog.Errorf("says %v", err)
	klog.Background().Error(err, "says")
	slog.Error("says", "err", err)
	log.Print("says")
	for _, args := range [][]string{{"--no-such-flag"}, {"no-such-command"}, {"--node-concurrent-reconciles=0"}} {
		execute(t.Context(), o, args...)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 7 {
		t.Errorf("%d lines, want 7", len(lines))
	}
	for _, line := range lines {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil || got["stacktrace"] != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// BootTime is when this machine booted, by the line btime of proc_stat(5); zero where that cannot be read.
func BootTime() time.Time {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}
	}
	return parseBootTime(string(raw))
}

func parseBootTime(stat string) time.Time {
	for line := range strings.Lines(stat) {
		if text, ok := strings.CutPrefix(line, "btime "); ok {
			if s, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
				return time.Unix(s, 0)
			}
		}
	}
	return time.Time{}
}

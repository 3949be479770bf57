// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package haproxy

import (
	"encoding/csv"
	"fmt"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/test/cluster"
)

// Whole is, in a backend's statistics, the name of what is about all of it.
const Whole = "BACKEND"

// Backend is one of an HAProxy's backends.
type Backend struct {
	h    *HAProxy
	name string
}

// Backend is the backend of this name.
func (h *HAProxy) Backend(name string) Backend { return Backend{h: h, name: name} }

// Fields are fields of HAProxy's statistics, by their names in its CSV format: see section 9.1 of its management guide.
type Fields map[string]string

// Statistics are those of a backend's servers, by name, and of the Whole.
type Statistics map[string]Fields

// Statistics are the backend's now.
func (b Backend) Statistics(t testing.TB) Statistics {
	t.Helper()
	text, err := b.h.Command(t.Context(), "show stat")
	cluster.Must(t, err)
	s, err := parseStatistics(text, b.name)
	if err != nil {
		t.Fatalf("reading the statistics: %v\n%s", err, text)
	}
	return s
}

func parseStatistics(text, backend string) (Statistics, error) {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(strings.TrimSpace(text), "# ")))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	s := Statistics{}
	for _, row := range rows[min(1, len(rows)):] {
		fields := Fields{}
		for i, name := range rows[0] {
			if i < len(row) {
				fields[name] = row[i]
			}
		}
		if fields["pxname"] == backend {
			s[fields["svname"]] = fields
		}
	}
	if len(s) == 0 {
		return nil, fmt.Errorf("there is no backend %q", backend)
	}
	return s, nil
}

// Is says which of these fields a server does not have.
func (s Statistics) Is(server string, want Fields) error {
	for name, value := range want {
		if got, ok := s[server][name]; !ok || got != value {
			return fmt.Errorf("%s: %s is %q, not %q, in %v", server, name, got, value, s[server])
		}
	}
	return nil
}

// Becomes waits until a server has all these fields at the same time.
func (b Backend) Becomes(t testing.TB, server string, want Fields) {
	t.Helper()
	cluster.Eventually(t, "HAProxy's statistics of "+b.name, func() error { return b.Statistics(t).Is(server, want) })
}

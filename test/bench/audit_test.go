// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func line(user, verb, resource, subresource, name string, code int, second int) string {
	return fmt.Sprintf(`{"kind":"Event","verb":%q,"user":{"username":%q},`+
		`"objectRef":{"resource":%q,"subresource":%q,"name":%q},`+
		`"responseStatus":{"code":%d},"requestReceivedTimestamp":"2026-01-01T00:00:%02d.500000Z"}`+"\n",
		verb, user, resource, subresource, name, code, second)
}

func TestAuditLogCountsWhatAUserAsksFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	l := &auditLog{path: file}
	r := newRequests()
	if more, err := l.read("me", r); err != nil || more {
		t.Fatalf("before there is a log: %v, %v", more, err)
	}
	text := line("me", "patch", "nodes", "", "a", 200, 1) +
		line("me", "patch", "nodes", "", "b", 200, 1) +
		line("me", "patch", "nodes", "", "b", 422, 1) +
		line("other", "patch", "nodes", "", "c", 200, 1) +
		line("me", "patch", "nodes", "status", "d", 200, 1) + // no client should
		line("me", "create", "events", "", "", 201, 1) +
		line("me", "patch", "events", "", "e", 200, 1) +
		line("me", "update", "nodereadinessrules", "status", "r", 200, 2) +
		line("me", "patch", "nodereadinessrules", "", "r", 200, 2) +
		line("me", "get", "nodes", "", "a", 200, 2) +
		line("me", "list", "leases", "", "", 200, 2) + // not counted
		line("me", "get", "admissionrules", "", "nodegate", 200, 2) + // nor
		strings.Replace(line("me", "list", "nodes", "", "", 200, 2), "{",
			`{"requestURI":"/api/v1/nodes?limit=1",`, 1) + // nor
		line("me", "watch", "nodes", "", "", 200, 2)
	last := line("me", "update", "nodereadinessrules", "status", "r", 409, 4)
	if err := os.WriteFile(file, []byte(text+last[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	if more, err := l.read("me", r); err != nil || !more {
		t.Fatalf("got %v, %v", more, err)
	}
	if n := r.all(); n != 9 {
		t.Errorf("%d requests, want 9: a line that is not complete is read later", n)
	}
	if err := os.WriteFile(file, []byte(text+last), 0o600); err != nil {
		t.Fatal(err)
	}
	if more, err := l.read("me", r); err != nil || !more {
		t.Fatalf("got %v, %v", more, err)
	}
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 5e8, time.UTC) }
	want := &requests{
		writes: 9,
		latest: "update nodereadinessrules/status r",
		other: map[string]int{"get nodes": 1, "patch nodereadinessrules": 1, "patch nodes/status": 1, "patch nodes: 422": 1,
			"update nodereadinessrules/status: 409": 1},
		received: map[string][]time.Time{
			kindPatch: {at(1), at(1)}, kindRefused: {at(1)}, kindEvent: {at(1), at(1)}, kindStatus: {at(2), at(4)},
			kindOther: {at(1), at(2), at(2)},
		},
	}
	if diff := cmp.Diff(want, r, cmp.AllowUnexported(requests{})); diff != "" {
		t.Error(diff)
	}
	if n := r.until(kindStatus, at(4)); n != 1 {
		t.Errorf("%d status writes until then, want 1: the last came later", n)
	}
	if more, err := l.read("me", r); err != nil || more {
		t.Errorf("nothing is new: %v, %v", more, err)
	}
}

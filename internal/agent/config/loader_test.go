// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// buffer is a log that is written and read at the same time.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) count(s string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.b.String(), s)
}

// mounted is a directory that changes as kubelet changes a mounted ConfigMap: the file is a link through ..data, which
// is replaced.
type mounted struct {
	t       *testing.T
	dir     string
	version int
}

func (m *mounted) update(content string) {
	m.t.Helper()
	m.version++
	data := filepath.Join(m.dir, "..v"+string(rune('0'+m.version)))
	must := func(err error) {
		if err != nil {
			m.t.Fatal(err)
		}
	}
	must(os.Mkdir(data, 0o700))
	must(os.WriteFile(filepath.Join(data, "rules.json"), []byte(content), 0o600))
	must(os.Symlink(filepath.Base(data), filepath.Join(m.dir, "..data_tmp")))
	must(os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
	if m.version == 1 {
		must(os.Symlink(filepath.Join("..data", "rules.json"), filepath.Join(m.dir, "rules.json")))
	}
}

func fileWith(names ...string) string {
	var rules []Input
	for _, n := range names {
		rules = append(rules, input(n, 0, InForce, "probes"))
	}
	raw, _ := Compile(rules, nil).Encode()
	return string(raw)
}

func TestLoader(t *testing.T) {
	m := &mounted{t: t, dir: t.TempDir()}
	log := &buffer{}
	changes := make(chan *File, 10)
	l := &Loader{Path: filepath.Join(m.dir, "rules.json"), Log: slog.New(slog.NewTextHandler(log, nil)),
		Changed: func(f *File) { changes <- f }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	changed := func(rules int) {
		t.Helper()
		select {
		case f := <-changes:
			if len(f.Rules) != rules || l.Current() != f {
				t.Fatalf("%d rules, not %d", len(f.Rules), rules)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("no change is seen")
		}
	}
	eventually := func(what string, check func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !check(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %q", what, l.Problem())
			}
		}
	}
	eventually("a missing file is said", func() bool { return log.count("There is no earlier one") == 1 })
	m.update(fileWith("a"))
	changed(1)
	m.update(fileWith("a", "b"))
	changed(2)
	good := l.Current()
	m.update("{broken")
	eventually("a broken file is said", func() bool {
		return log.count("The last good one stays in force") == 1 &&
			l.Problem() != ""
	})
	if l.Current() != good {
		t.Error("the last good configuration is gone")
	}
	m.update(fileWith("a", "b"))
	eventually("the same as before is good again", func() bool { return l.Problem() == "" })
	m.update(fileWith())
	changed(0)
	if len(changes) != 0 {
		t.Error("the same configuration was told as a change")
	}
}

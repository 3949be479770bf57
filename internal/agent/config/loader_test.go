// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
	f := New()
	for _, n := range names {
		f.Rules = append(f.Rules, rule(n, "example.com/A"))
	}
	raw, _ := f.Encode()
	return string(raw)
}

func TestLoader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mounted{t: t, dir: t.TempDir()}
		var log bytes.Buffer
		changes := 0
		l := &Loader{Path: filepath.Join(m.dir, "rules.json"), Log: slog.New(slog.NewTextHandler(&log, nil)),
			Changed: func() { changes++ }}
		go l.Run(t.Context())
		expect := func(when string, rules, wantChanges int, problem bool, said string) {
			t.Helper()
			time.Sleep(2 * lookPeriod)
			synctest.Wait()
			if f := l.Current(); (f == nil) != (rules < 0) || f != nil && len(f.Rules) != rules {
				t.Errorf("%s: %+v in force", when, f)
			}
			if changes != wantChanges || (l.Problem() != "") != problem {
				t.Errorf("%s: %d changes, the problem %q", when, changes, l.Problem())
			}
			if n := strings.Count(log.String(), said); n != 1 {
				t.Errorf("%s: the log has %q %d times", when, said, n)
			}
			log.Reset()
		}
		expect("a missing file", -1, 0, true, "There is no earlier one")
		m.update(fileWith("a"))
		expect("the first", 1, 1, false, "The configuration is good again")
		m.update(fileWith("a", "b"))
		expect("another", 2, 2, false, "The configuration is loaded")
		m.update("{broken")
		expect("a broken one", 2, 2, true, "The last good one stays in force")
		m.update(fileWith("a", "b"))
		expect("the same as before", 2, 2, false, "The configuration is good again")
		m.update(fileWith())
		expect("no rule", 0, 3, false, "The configuration is loaded")
		m.update(strings.Replace(fileWith("a"), `"rules"`, `"later": true, "rules"`, 1))
		expect("one of a later version", 1, 4, false, "Ignoring fields")
	})
}

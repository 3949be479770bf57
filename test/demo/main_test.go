// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
)

// TestEveryCommandSetsALogger: controller-runtime prints a stack dump 30 seconds after the start of a command that has
// one of its clients and sets no logger.
func TestEveryCommandSetsALogger(t *testing.T) {
	const format = `{{if eq .Name "main"}}{{.Dir}} {{range .Deps}}{{.}},{{end}}{{end}}`
	list := exec.CommandContext(t.Context(), "go", "list", "-f", format, "./...")
	list.Dir = cluster.Root()
	out, err := list.Output()
	cluster.Must(t, err)
	checked := 0
	for line := range strings.Lines(string(out)) {
		dir, deps, _ := strings.Cut(line, " ")
		if !strings.Contains(deps, "sigs.k8s.io/controller-runtime/pkg/log,") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		cluster.Must(t, err)
		text := ""
		for _, f := range files {
			raw, err := os.ReadFile(f)
			cluster.Must(t, err)
			if !strings.HasSuffix(f, "_test.go") {
				text += string(raw)
			}
		}
		if checked++; !strings.Contains(text, "SetLogger(") {
			t.Errorf("%s has a client of controller-runtime and sets no logger", dir)
		}
	}
	if checked < 5 {
		t.Errorf("only %d commands have a client of controller-runtime", checked)
	}
}

func TestParseWait(t *testing.T) {
	for text, want := range map[string]time.Duration{"": forever, " ": forever, "0": 0, "5": 5 * time.Second} {
		if got, err := parseWait(text); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "-1", "1s"} {
		if _, err := parseWait(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

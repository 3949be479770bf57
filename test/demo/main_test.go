// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
		if strings.Contains(deps, "/test/bench/measure,") { // its Main sets the logger for all benches
			files = append(files, filepath.Join(cluster.Root(), "test/bench/measure/run.go"))
		}
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

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
)

// page is a page of the documentation that is followed step by step.
type page struct {
	*world
	t        *testing.T
	name     string
	dir      string   // where a reader would have saved the files
	commands []string // that the page has
	left     []string // those that nobody has run yet
}

// open reads a page, and saves its files: each YAML block, under the name in its first line.
func open(t *testing.T, w *world, name string) *page {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(w.Root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{world: w, t: t, name: name, dir: t.TempDir()}
	for _, block := range regexp.MustCompile("(?ms)^ *```(\\w+)\n(.*?)^ *```$").FindAllStringSubmatch(string(content), -1) {
		text := unindent(block[2])
		switch block[1] {
		case "yaml":
			file := regexp.MustCompile(`\A# (\S+\.yaml)\b`).FindStringSubmatch(text)
			if file == nil {
				t.Fatalf("%s: a YAML block that begins with no name of a file:\n%s", name, text)
			}
			if err := os.WriteFile(filepath.Join(p.dir, file[1]), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case "sh":
			for line := range strings.Lines(text) {
				command, _, _ := strings.Cut(strings.TrimSpace(line), "  #")
				if command = strings.TrimSpace(command); command != "" && !strings.HasPrefix(command, "#") {
					p.commands = append(p.commands, command)
				}
			}
		}
	}
	p.left = slices.Clone(p.commands)
	return p
}

// unindent takes off a block what the list that it stands in puts before it.
func unindent(text string) string {
	margin := len(text) - len(strings.TrimLeft(text, " "))
	return regexp.MustCompile(`(?m)^ {0,`+string(rune('0'+margin))+`}`).ReplaceAllString(text, "")
}

// run runs a command of the page, in which pairs of old and new replace what stands for a name, and gives what it prints.
func (p *page) run(command string, names ...string) (string, error) {
	p.t.Helper()
	i := slices.Index(p.commands, command)
	if i < 0 {
		p.t.Fatalf("%s has no command %q, but %q", p.name, command, p.commands)
	}
	p.left = slices.DeleteFunc(p.left, func(c string) bool { return c == command })
	ctx, cancel := context.WithTimeout(p.t.Context(), cluster.Limit) // some of them wait for longer
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.NewReplacer(names...).Replace(command))
	cmd.Dir, cmd.WaitDelay = p.dir, time.Second
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig(), "PATH="+strings.Join([]string{p.Dir(), p.Assets(), os.Getenv("PATH")}, string(os.PathListSeparator)))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must runs a command of the page that has to succeed.
func (p *page) must(command string, names ...string) string {
	p.t.Helper()
	out, err := p.run(command, names...)
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// done checks that all commands of the page were run but those that are about what is not here.
func (p *page) done(except ...string) {
	p.t.Helper()
	slices.Sort(except)
	slices.Sort(p.left)
	if !slices.Equal(p.left, except) {
		p.t.Errorf("%s: not run are %q, and should be %q", p.name, p.left, except)
	}
}

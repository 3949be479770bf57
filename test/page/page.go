// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page follows pages of the documentation step by step, with the manifests and the commands that they have.
package page

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
)

// Page is a page of the documentation.
type Page struct {
	// Commands are the commands that the page has.
	Commands []string

	env    *cluster.Env
	name   string
	dir    string   // where a reader would have saved the files
	path   string   // PATH, with kubectl and the plugin
	notRun []string // commands
	// samples are the outputs that the page shows, by their command: a block of text after a block with one command.
	samples map[string]string
}

var (
	block    = regexp.MustCompile("(?ms)^ *```(\\w+)\n(.*?)^ *```$")
	fileName = regexp.MustCompile(`\A# (\S+\.yaml)\b`)
	// varying is what differs between two runs: times, durations, and the widths of columns.
	varying = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:]+Z|\b(\d+(\.\d+)?(ms|s|m|h|d))+\b|  +|\t`)
	update  = flag.Bool("update", false, "write the outputs of commands into the pages")
)

// Open reads a page, and saves its files: each YAML block, under the name in its first line.
func Open(e *cluster.Env, name string) *Page {
	e.T.Helper()
	content, err := os.ReadFile(filepath.Join(cluster.Root(), "docs", name))
	e.Must(err)
	plugin, err := e.Binary(e.T.Context(), "kubectl-nodegate")
	e.Must(err)
	p := &Page{env: e, name: name, dir: e.T.TempDir(), samples: map[string]string{}}
	p.path = strings.Join([]string{filepath.Dir(plugin), e.Assets(), os.Getenv("PATH")}, string(os.PathListSeparator))
	only := "" // the command of the last block, if it has one
	for _, b := range block.FindAllStringSubmatch(string(content), -1) {
		text := unindent(b[2])
		switch b[1] {
		case "text":
			if only != "" {
				p.samples[only] = text
			}
		case "yaml":
			file := fileName.FindStringSubmatch(text)
			if file == nil {
				e.T.Fatalf("%s: a YAML block that begins with no name of a file:\n%s", name, text)
			}
			e.Must(os.WriteFile(filepath.Join(p.dir, file[1]), []byte(text), 0o600))
		case "sh":
			before := len(p.Commands)
			for line := range strings.Lines(text) {
				command, _, _ := strings.Cut(strings.TrimSpace(line), "  #")
				if command = strings.TrimSpace(command); command != "" && !strings.HasPrefix(command, "#") {
					p.Commands = append(p.Commands, command)
				}
			}
			if only = ""; len(p.Commands) == before+1 {
				only = p.Commands[before]
			}
		}
	}
	p.notRun = slices.Clone(p.Commands)
	return p
}

// unindent removes the indentation of the list that a block is in.
func unindent(text string) string {
	margin := len(text) - len(strings.TrimLeft(text, " "))
	return regexp.MustCompile(`(?m)^ {0,`+string(rune('0'+margin))+`}`).ReplaceAllString(text, "")
}

// Run runs a command of the page, in which pairs of old and new replace placeholders, and returns what it prints.
func (p *Page) Run(command string, names ...string) (string, error) {
	p.env.T.Helper()
	if !slices.Contains(p.Commands, command) {
		p.env.T.Fatalf("%s has no command %q, but %q", p.name, command, p.Commands)
	}
	p.notRun = slices.DeleteFunc(p.notRun, func(c string) bool { return c == command })
	ctx, cancel := context.WithTimeout(p.env.T.Context(), cluster.Limit) // some of them wait for longer
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.NewReplacer(names...).Replace(command))
	cmd.Dir, cmd.WaitDelay = p.dir, time.Second
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.env.Kubeconfig(), "PATH="+p.path)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Must runs a command of the page that has to succeed.
func (p *Page) Must(command string, names ...string) string {
	p.env.T.Helper()
	out, err := p.Run(command, names...)
	if err != nil {
		p.env.T.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// Becomes repeats a command of the page until what it prints matches a regular expression.
func (p *Page) Becomes(what, want, command string, names ...string) {
	p.env.T.Helper()
	p.env.Eventually(what, func() error {
		out, err := p.Run(command, names...)
		if err == nil && !regexp.MustCompile(want).MatchString(out) {
			err = errors.New(out)
		}
		return err
	})
}

// Shows runs a command that has to print what the page shows after it: each line of the page's sample, apart from times
// and the widths of columns.
func (p *Page) Shows(command string, names ...string) {
	p.env.T.Helper()
	sample := p.samples[command]
	if sample == "" {
		p.env.T.Fatalf("%s shows no output of %q", p.name, command)
	}
	out := p.Must(command, names...)
	if *update {
		file := filepath.Join(cluster.Root(), "docs", p.name)
		content, err := os.ReadFile(file)
		p.env.Must(err)
		p.env.Must(os.WriteFile(file, []byte(strings.Replace(string(content), sample, out, 1)), 0o600))
		return
	}
	for line := range strings.Lines(sample) {
		if !strings.Contains(stable(out), stable(line)) {
			p.env.T.Errorf("%s shows, as the output of %q,\n%s\nbut it is\n%s", p.name, command, line, out)
		}
	}
}

// stable returns a text without what varies.
func stable(text string) string {
	return varying.ReplaceAllStringFunc(text, func(s string) string {
		if s[0] == ' ' || s[0] == '\t' {
			return " "
		}
		return "TIME"
	})
}

// Done checks that all commands of the page were run, except those that are about something that is not here.
func (p *Page) Done(except ...string) {
	p.env.T.Helper()
	slices.Sort(except)
	slices.Sort(p.notRun)
	if !slices.Equal(p.notRun, except) {
		p.env.T.Errorf("%s: not run are %q, and should be %q", p.name, p.notRun, except)
	}
}

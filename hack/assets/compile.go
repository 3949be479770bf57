// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// compiler builds binaries from the pinned modules.
type compiler struct {
	dir      string // of the module that pins them
	pins     pins
	progress *progress
}

// obtain builds all of the binaries with one "go build", because they share most of their packages.
func (c *compiler) obtain(ctx context.Context, names []string, dir string) error {
	start := time.Now()
	c.progress.say("building %s of Kubernetes %s, etcd %s and kwok %s from source: once, some minutes",
		strings.Join(names, ", "), c.pins.kubernetes, c.pins.etcd, c.pins.kwok)
	var pkgs []string
	for _, name := range names {
		pkgs = append(pkgs, packages[name])
	}

	// Listing first downloads the modules, which is better told apart from compiling, and counts the packages.
	var listed bytes.Buffer
	var modules atomic.Int64
	err := c.goCommand(ctx, append([]string{"list", "-mod=readonly", "-deps"}, pkgs...), &listed,
		func(line string) bool {
			if !strings.HasPrefix(line, "go: downloading ") {
				return false
			}
			modules.Add(1)
			return true
		},
		func(elapsed string) { c.progress.show("%s downloading modules: %d", elapsed, modules.Load()) })
	if err != nil {
		return fmt.Errorf("downloading the sources of the control plane: %w", err)
	}
	total := bytes.Count(listed.Bytes(), []byte("\n"))

	// "-v" names each package when it is compiled; those in Go's build cache are not, hence "up to".
	var compiled atomic.Int64
	args := append([]string{"build", "-v"}, buildFlags(c.pins)...)
	args = append(append(args, "-o", dir+string(filepath.Separator)), pkgs...)
	err = c.goCommand(ctx, args, io.Discard,
		func(line string) bool {
			if strings.ContainsAny(line, " :#") {
				return false
			}
			compiled.Add(1)
			return true
		},
		func(elapsed string) {
			linked := c.linked(dir, names)
			c.progress.show("%s compiled %d of up to %d packages, linked %d of %d binaries%s",
				elapsed, compiled.Load(), total, len(linked), len(names), inParentheses(linked))
		})
	if err != nil {
		return fmt.Errorf("building the control plane: %w", err)
	}
	for _, name := range names {
		if built, ok := builtName[name]; ok {
			if err := os.Rename(filepath.Join(dir, built), filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	c.progress.say("built %d binaries in %s", len(names), time.Since(start).Round(time.Second))
	return nil
}

// linked returns the binaries that "go build" has written so far.
func (c *compiler) linked(dir string, names []string) []string {
	var done []string
	for _, name := range names {
		file := name
		if built, ok := builtName[name]; ok {
			file = built
		}
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			done = append(done, name)
		}
	}
	return done
}

// goCommand runs the go command in the pinning module. known says of a line of stderr that it is progress;
// all other lines are kept for the error. tick is called now and then with the time spent.
func (c *compiler) goCommand(ctx context.Context, args []string, stdout io.Writer, known func(string) bool, tick func(string)) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=")
	cmd.Stdout = stdout
	// An interrupt lets the go command remove its work directory; it is killed if it does not heed it.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := c.progress.every(tick)
	var rest []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if line := lines.Text(); !known(line) {
			rest = append(rest, line)
		}
	}
	err = cmd.Wait()
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, strings.Join(rest, "\n"))
	}
	return nil
}

func inParentheses(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// compiler builds binaries from the pinned modules.
type compiler struct {
	pins     pins
	progress *progress
}

// obtain builds all of the binaries with one "go build", because they share most of their packages.
func (c *compiler) obtain(ctx context.Context, names []string, dir string) error {
	start := time.Now()
	c.progress.say("building %s from source, Kubernetes %s: once, some minutes", strings.Join(names, ", "),
		c.pins.kubernetes)
	args := append(append([]string{"build", "-v"}, buildFlags(c.pins)...), "-o", dir+string(filepath.Separator))
	for _, name := range names {
		args = append(args, packages[name])
	}
	if err := c.build(ctx, args, names, dir); err != nil {
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

// build runs "go build", and shows its progress.
func (c *compiler) build(ctx context.Context, args, names []string, dir string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = c.pins.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=")
	// An interrupt lets the go command remove its work directory.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var modules, compiled atomic.Int64
	stop := c.progress.every(func(elapsed string) {
		linked := c.linked(dir, names)
		c.progress.show("%s downloaded %d modules, compiled %d packages, linked %d of %d binaries%s",
			elapsed, modules.Load(), compiled.Load(), len(linked), len(names), inParentheses(linked))
	})
	var rest []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
			modules.Add(1)
		case !strings.ContainsAny(line, " :#"): // a package, by -v
			compiled.Add(1)
		default:
			rest = append(rest, line)
		}
	}
	err = cmd.Wait()
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, strings.Join(rest, "\n"))
	}
	return nil
}

func inParentheses(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

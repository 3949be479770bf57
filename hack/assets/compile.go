// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// compiler builds binaries from the pinned modules.
type compiler struct {
	pins pins
	log  *log.Logger
}

// obtain builds all of the binaries with one "go build", because they share most of their packages.
func (c *compiler) obtain(ctx context.Context, names []string, dir string) error {
	start := time.Now()
	c.log.Printf("building %s from source, Kubernetes %s: once, about ten minutes on two cores", strings.Join(names, ", "),
		c.pins.kubernetes)
	var wanted []string
	for _, name := range names {
		wanted = append(wanted, packages[name])
	}
	// What is in Go's cache is not compiled, and -v does not name it.
	stale := &bytes.Buffer{}
	err := c.run(ctx, stale, 0, "list", []string{"-deps", "-f={{if .Stale}}.{{end}}"}, wanted)
	if err == nil {
		total := strings.Count(stale.String(), ".")
		err = c.run(ctx, io.Discard, total, "build", []string{"-v", "-o", dir + string(filepath.Separator)}, wanted)
	}
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
	c.log.Printf("built %d binaries in %s", len(names), time.Since(start).Round(time.Second))
	return nil
}

// run runs a go command for packages, and logs its progress. total is how many packages it compiles, or 0 if that is
// not known.
func (c *compiler) run(ctx context.Context, out io.Writer, total int, command string, flags, packages []string) error {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{command}, buildFlags(c.pins), flags, packages)...)
	cmd.Dir, cmd.Stdout = c.pins.dir, out
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
	modules, compiled, logged := 0, 0, time.Now()
	var rest []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
			modules++
		case !strings.ContainsAny(line, " :#"): // a package, by -v
			compiled++
		default:
			rest = append(rest, line)
		}
		if time.Since(logged) > 15*time.Second {
			c.log.Print(progress(modules, compiled, total))
			logged = time.Now()
		}
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, strings.Join(rest, "\n"))
	}
	return nil
}

// progress says how far a build is.
func progress(modules, compiled, total int) string {
	var words []string
	if modules > 0 {
		words = append(words, fmt.Sprintf("downloaded %d modules", modules))
	}
	switch {
	case total > 0:
		words = append(words, fmt.Sprintf("compiled %d of %d packages", compiled, max(compiled, total)))
	case compiled > 0 || modules == 0:
		words = append(words, fmt.Sprintf("compiled %d packages", compiled))
	}
	return strings.Join(words, ", ")
}

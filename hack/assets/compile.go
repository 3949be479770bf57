// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
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
	c.log.Printf("building %s from source, Kubernetes %s: once, some minutes", strings.Join(names, ", "),
		c.pins.kubernetes)
	args := append(append([]string{"build", "-v"}, buildFlags(c.pins)...), "-o", dir+string(filepath.Separator))
	for _, name := range names {
		args = append(args, packages[name])
	}
	if err := c.build(ctx, args); err != nil {
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

// build runs "go build", and logs its progress.
func (c *compiler) build(ctx context.Context, args []string) error {
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
			c.log.Printf("downloaded %d modules, compiled %d packages", modules, compiled)
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

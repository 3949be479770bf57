// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BinEnv names a directory with the built commands: manager, agent and kubectl-nodegate. "make test" sets it.
const BinEnv = "NODEGATE_BIN"

// Binary returns the path of one of the project's commands: in the directory that BinEnv names, or else built once for
// this cluster, into its directory.
func (c *Cluster) Binary(ctx context.Context, command string) (string, error) {
	c.building.Lock()
	defer c.building.Unlock()
	return BinaryIn(ctx, filepath.Join(c.dir, "bin"), command)
}

// BinaryIn returns the path of one of the project's commands: in the directory that BinEnv names, or else in dir, where
// it is built if it is not there.
func BinaryIn(ctx context.Context, dir, command string) (string, error) {
	if built := os.Getenv(BinEnv); built != "" {
		return filepath.Join(built, command), nil
	}
	path := filepath.Join(dir, command)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, Build(ctx, path, "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w", "./cmd/"+command)
}

// Build builds a package of this checkout, with the arguments that "go build" takes. Cgo is off unless the arguments
// ask for the race detector, which needs it.
func Build(ctx context.Context, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", path}, args...)...)
	cmd.Dir = Root()
	cgo := "CGO_ENABLED=0"
	if args[0] == "-race" {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), cgo)
	endGroup(cmd) // an interrupt from a terminal reaches the whole group: this one ends with its context
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", filepath.Base(path), err, out)
	}
	return nil
}

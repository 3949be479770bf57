// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// envtestIndex is setup-envtest's own default.
const envtestIndex = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"

// They are variables so that a test need not wait so long.
var (
	// connectLimit bounds the wait for a site that cannot be reached.
	connectLimit = 8 * time.Second
	// downloadLimit bounds the whole download. After it, the binaries are built.
	downloadLimit = 5 * time.Minute
)

// envtestBinaries are what an envtest release holds.
var envtestBinaries = []string{"etcd", "kube-apiserver", "kubectl"}

// envtest downloads binaries with setup-envtest. If that fails, it says so and leaves the binaries to be built.
type envtest struct {
	dir     string // of the module that pins setup-envtest
	index   string
	version string // of Kubernetes
	log     *log.Logger
}

func (e *envtest) obtain(ctx context.Context, names []string, dir string) error {
	wanted := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(envtestBinaries, n) })
	if len(wanted) == 0 {
		return nil
	}
	start := time.Now()
	err := e.download(ctx, wanted, dir)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		e.log.Printf("no download of envtest's binaries (%v)", err)
		return nil
	}
	e.log.Printf("downloaded %s in %s", strings.Join(wanted, ", "), time.Since(start).Round(time.Second))
	return nil
}

func (e *envtest) download(ctx context.Context, wanted []string, dir string) error {
	if err := e.reachable(ctx); err != nil {
		return err
	}
	// "go tool -n" builds setup-envtest and prints its path, so that the limit is for the download alone.
	locate := exec.CommandContext(ctx, "go", "tool", "-n", "setup-envtest")
	locate.Dir = e.dir
	locate.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=")
	tool, err := locate.Output()
	if err != nil {
		return fmt.Errorf("building setup-envtest: %w", err)
	}

	// Releases exist for some patch versions only, and those of one minor version work together.
	major, minor, _ := strings.Cut(strings.TrimPrefix(e.version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	into, err := os.MkdirTemp(dir, "envtest-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(into) }()
	ctx, cancel := context.WithTimeoutCause(ctx, downloadLimit, fmt.Errorf("it took longer than %s", downloadLimit))
	defer cancel()
	cmd := exec.CommandContext(ctx, strings.TrimSpace(string(tool)), "use", major+"."+minor+".x!",
		"--index", e.index, "--bin-dir", into, "-p", "path")
	cmd.Env = append(os.Environ(), "TMPDIR="+into)
	path, err := cmd.Output()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("setup-envtest: %w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return err
	}
	return take(strings.TrimSpace(string(path)), wanted, dir)
}

// reachable requests the index once, so that a machine without access to it waits for seconds and not for minutes.
func (e *envtest) reachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, e.index, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", e.index, resp.Status)
	}
	return nil
}

// take moves the binaries out of setup-envtest's own directory, which is read-only.
func take(from string, names []string, to string) error {
	err := os.Chmod(from, 0o755)
	for _, name := range names {
		target := filepath.Join(to, name)
		err = errors.Join(err, os.Rename(filepath.Join(from, name), target), os.Chmod(target, 0o755))
	}
	return err
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
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
	// connectLimit bounds how long an unreachable site is waited for; a site that answers does so in much less.
	connectLimit = 8 * time.Second
	// stallLimit bounds how long a download that has begun may bring nothing.
	stallLimit = 20 * time.Second
)

// envtestBinaries are what an envtest release holds.
var envtestBinaries = []string{"etcd", "kube-apiserver", "kubectl"}

// envtest downloads binaries with setup-envtest. Building from source follows, so that nothing here fails
// for good: whatever goes wrong is told and leaves the binaries to be built.
type envtest struct {
	dir      string // of the module that pins setup-envtest
	index    string
	version  string // of Kubernetes
	progress *progress
}

func (e *envtest) obtain(ctx context.Context, names []string, dir string) error {
	var wanted []string
	for _, name := range names {
		if slices.Contains(envtestBinaries, name) {
			wanted = append(wanted, name)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	start := time.Now()
	err := e.download(ctx, wanted, dir)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		e.progress.say("no download of envtest's binaries (%v)", err)
		return nil
	}
	e.progress.say("downloaded %s in %s", strings.Join(wanted, ", "), time.Since(start).Round(time.Second))
	return nil
}

func (e *envtest) download(ctx context.Context, wanted []string, dir string) error {
	e.progress.show("looking for envtest's download")
	if err := e.reachable(ctx); err != nil {
		return err
	}
	// "go tool -n" builds setup-envtest and says where it is: what follows is then the download alone.
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
	defer removeAll(into)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, strings.TrimSpace(string(tool)), "use", major+"."+minor+".x!",
		"--index", e.index, "--bin-dir", into, "-p", "path")
	cmd.Env = append(os.Environ(), "TMPDIR="+into) // where it unpacks from: so that growth is seen
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stop := watchGrowth(into, stallLimit, func() { cancel(fmt.Errorf("nothing came for %s", stallLimit)) })
	path, err := cmd.Output()
	stop()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("setup-envtest: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return take(strings.TrimSpace(string(path)), wanted, dir)
}

// reachable asks the index once, so that a machine that cannot get at it loses seconds and not a minute.
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

// take moves the binaries out of setup-envtest's own directory, which it makes read-only.
func take(from string, names []string, to string) error {
	if err := os.Chmod(from, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		target := filepath.Join(to, name)
		if err := os.Rename(filepath.Join(from, name), target); err != nil {
			return err
		}
		if err := os.Chmod(target, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// watchGrowth calls stalled when dir has not grown for the given time, until stop is called.
func watchGrowth(dir string, limit time.Duration, stalled func()) (stop func()) {
	quit := make(chan struct{})
	go func() {
		size, since := int64(-1), time.Now()
		for {
			select {
			case <-quit:
				return
			case <-time.After(limit / 10):
			}
			if now := sizeOf(dir); now != size {
				size, since = now, time.Now()
			} else if time.Since(since) > limit {
				stalled()
				return
			}
		}
	}()
	return func() { close(quit) }
}

func sizeOf(dir string) int64 {
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was moved while this looked
		}
		if info, err := d.Info(); err == nil && !d.IsDir() {
			size += info.Size()
		}
		return nil
	})
	return size
}

func removeAll(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

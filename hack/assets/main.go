// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// controlPlane are the binaries that every caller gets, in the order they are named in messages.
var controlPlane = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"}

// nodeBinaries are added by -node: only a suite with real kubelets needs them.
var nodeBinaries = []string{"kubelet", "kube-proxy"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "assets:", err)
		}
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("assets", flag.ContinueOnError)
	flags.SetOutput(stderr)
	node := flags.Bool("node", false, "also kubelet and kube-proxy")
	download := flags.Bool("download", true, "try envtest's download before building from source")
	index := flags.String("index", envtestIndex, "where the envtest releases are listed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}

	src, err := sourceDir()
	if err != nil {
		return err
	}
	p, err := readPins(src)
	if err != nil {
		return err
	}
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	want := controlPlane
	if *node {
		want = append(append([]string{}, controlPlane...), nodeBinaries...)
	}

	progress := newProgress(stderr)
	obtainers := []obtainer{&compiler{dir: filepath.Join(src, "controlplane"), pins: p, progress: progress}}
	if *download {
		obtainers = append([]obtainer{&envtest{
			dir: filepath.Join(src, "envtest"), index: *index, version: p.kubernetes, progress: progress,
		}}, obtainers...)
	}
	s := &store{cache: cache, key: p.key(), given: os.Getenv("KUBEBUILDER_ASSETS"), obtainers: obtainers,
		progress: progress}
	dir, err := s.ensure(ctx, want)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, dir)
	return err
}

// sourceDir is the directory of this command's source, which holds the modules that pin the binaries. It
// is looked for from the working directory upwards, because a binary built with -trimpath does not know it.
func sourceDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		src := filepath.Join(dir, "hack", "assets")
		if _, err := os.Stat(filepath.Join(src, "controlplane", "go.mod")); err == nil {
			return src, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no hack/assets/controlplane/go.mod here or above: run this inside the checkout")
		}
		dir = parent
	}
}

// cacheDir is the same on Linux and macOS, unlike os.UserCacheDir: one path to name in the documentation.
func cacheDir() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" || !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding the user's cache directory: %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "nodegate", "assets"), nil
}

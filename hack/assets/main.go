// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
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
	minor := flags.String("kubernetes", "", "minor version of Kubernetes, such as 1.32; the newest by default")
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
	p, err := readPins(src, "")
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
	logger := log.New(stderr, "assets: ", 0)
	ensure := func(p pins, want []string, first ...obtainer) (string, error) {
		download := &envtest{dir: filepath.Join(src, "envtest"), index: envtestIndex, version: p.kubernetes, log: logger}
		obtainers := slices.Concat(first, []obtainer{download, &compiler{pins: p, log: logger}})
		s := &store{dir: filepath.Join(cache, p.key()), obtainers: obtainers, log: logger}
		return s.dir, s.ensure(ctx, want)
	}
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	switch {
	case *minor != "" && !p.is(*minor):
		dir, err = other(src, *minor, *node, p, ensure)
	case dir != "" && len(missing(dir, want)) == 0:
		dir, err = filepath.Abs(dir)
	default:
		if dir != "" {
			logger.Printf("KUBEBUILDER_ASSETS=%s lacks %s and is not used", dir, strings.Join(missing(dir, want), ", "))
		}
		dir, err = ensure(p, want)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, dir)
	return err
}

// shared are the binaries that do not depend on the version of Kubernetes.
var shared = []string{"etcd", "kwok"}

// other makes sure of the control plane of another minor version, with links to the binaries that all versions share.
// KUBEBUILDER_ASSETS is not used, because its binaries are of an unknown version.
func other(
	src, minor string, node bool, base pins, ensure func(pins, []string, ...obtainer) (string, error),
) (string, error) {
	if node {
		return "", errors.New("-node: kubelet and kube-proxy are there for the default version of Kubernetes only")
	}
	p, err := readPins(src, minor)
	if err != nil {
		return "", fmt.Errorf("-kubernetes=%s: %w", minor, err)
	}
	from, err := ensure(base, shared)
	if err != nil {
		return "", err
	}
	return ensure(p, controlPlane, linker(from))
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

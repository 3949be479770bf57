// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// An obtainer puts binaries into a directory. It returns an error only if it ought to have had them and
// does not; one that may fail, such as a download, just puts nothing there.
type obtainer interface {
	obtain(ctx context.Context, names []string, dir string) error
}

// store keeps complete binaries in directories of the user's cache. A binary appears there only by a rename,
// so whatever a broken-off run leaves behind is never taken for one.
type store struct {
	cache     string
	key       string
	given     string // KUBEBUILDER_ASSETS
	obtainers []obtainer
	progress  *progress
}

// ensure returns a directory that holds all the named binaries.
func (s *store) ensure(ctx context.Context, want []string) (string, error) {
	own := filepath.Join(s.cache, s.key)
	given := present(s.given, want)
	switch {
	case len(given) == len(want):
		return filepath.Abs(s.given)
	case len(given) > 0:
		return s.ensureBeside(ctx, own, given, want)
	case s.given != "":
		s.progress.say("KUBEBUILDER_ASSETS=%s holds none of the binaries and is not used", s.given)
	}
	return own, s.fill(ctx, own, want, nil)
}

// ensureBeside makes a directory of links to the binaries that KUBEBUILDER_ASSETS holds and adds the rest.
func (s *store) ensureBeside(ctx context.Context, own string, given, want []string) (string, error) {
	abs, err := filepath.Abs(s.given)
	if err != nil {
		return "", err
	}
	links := map[string]string{}
	for _, name := range present(own, want) {
		links[name] = filepath.Join(own, name)
	}
	for _, name := range given {
		links[name] = filepath.Join(abs, name)
	}
	// The set of names is part of the directory's name, so that a binary added to or taken from the given
	// directory later is noticed.
	sum := sha256.Sum256([]byte(abs + "\x00" + strings.Join(given, ",")))
	dir := own + "-with-" + hex.EncodeToString(sum[:])[:10]
	return dir, s.fill(ctx, dir, want, links)
}

// fill adds to dir whatever is missing of the named binaries.
func (s *store) fill(ctx context.Context, dir string, want []string, links map[string]string) error {
	if len(missing(dir, want)) == 0 {
		return nil
	}
	if err := os.MkdirAll(s.cache, 0o755); err != nil {
		return err
	}
	unlock, err := s.lock(ctx, dir+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	lacking := missing(dir, want)
	if len(lacking) == 0 { // another process has built them while this one waited
		return nil
	}

	// Whoever owned such a directory is dead: this process holds the lock.
	stale, err := filepath.Glob(dir + ".tmp-*")
	if err != nil {
		return err
	}
	for _, d := range stale {
		if err := os.RemoveAll(d); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp(s.cache, filepath.Base(dir)+".tmp-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()

	for _, name := range lacking {
		if target, ok := links[name]; ok {
			if err := os.Symlink(target, filepath.Join(tmp, name)); err != nil {
				return err
			}
		}
	}
	for _, o := range s.obtainers {
		rest := missing(tmp, lacking)
		if len(rest) == 0 {
			break
		}
		if err := o.obtain(ctx, rest, tmp); err != nil {
			return err
		}
	}
	if rest := missing(tmp, lacking); len(rest) > 0 {
		return fmt.Errorf("could not get %s", strings.Join(rest, ", "))
	}
	return move(tmp, dir, lacking)
}

// move renames the finished directory, or its files one by one where the directory is there already and
// lacked only some.
func move(tmp, dir string, names []string) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		if err := os.Chmod(tmp, 0o755); err != nil {
			return err
		}
		return os.Rename(tmp, dir)
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// lock makes sure that only one process at a time fills a directory. The kernel releases it when its owner
// dies, however that happens.
func (s *store) lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for told := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !told {
			s.progress.say("waiting for another process that is building the binaries")
			told = true
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// present returns those of the names that are executable files in dir.
func present(dir string, names []string) []string {
	var held []string
	for _, name := range names {
		if dir == "" {
			break
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && info.Size() > 0 {
			held = append(held, name)
		}
	}
	return held
}

func missing(dir string, names []string) []string {
	held := present(dir, names)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(held, name) })
}

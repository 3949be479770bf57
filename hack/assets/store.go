// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// An obtainer puts binaries into a directory. It returns an error only if no other obtainer can replace it: one that
// may fail, such as a download, just leaves binaries out.
type obtainer interface {
	obtain(ctx context.Context, names []string, dir string) error
}

// linker obtains the binaries that a directory already has. If only names some, it takes no others.
type linker struct {
	from string
	only []string
}

func (l linker) obtain(_ context.Context, names []string, dir string) error {
	for _, name := range present(l.from, names) {
		if l.only != nil && !slices.Contains(l.only, name) {
			continue
		}
		if err := os.Symlink(filepath.Join(l.from, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// store keeps complete binaries in directories of the user's cache. A binary gets there only by a rename, so that the
// remains of an interrupted run are never taken for one.
type store struct {
	cache     string
	key       string
	given     string // KUBEBUILDER_ASSETS
	obtainers []obtainer
	progress  *progress
}

// ensure returns a directory that has all the named binaries.
func (s *store) ensure(ctx context.Context, want []string) (string, error) {
	dir, obtainers := filepath.Join(s.cache, s.key), s.obtainers
	given, err := filepath.Abs(s.given)
	if err != nil {
		return "", err
	}
	switch has := present(s.given, want); {
	case len(has) == len(want):
		return given, nil
	case len(has) > 0:
		// A directory of links to the given binaries and to our own. Its name includes the names of the given binaries,
		// because they may change later.
		obtainers = append([]obtainer{linker{from: given}, linker{from: dir}}, obtainers...)
		dir += fmt.Sprintf("-with-%x", sha256.Sum256([]byte(given+"\x00"+strings.Join(has, ","))))[:16]
	case s.given != "":
		s.progress.say("KUBEBUILDER_ASSETS=%s has none of the binaries and is not used", s.given)
	}
	return dir, s.fill(ctx, dir, want, obtainers)
}

// fill adds the missing binaries to dir.
func (s *store) fill(ctx context.Context, dir string, want []string, obtainers []obtainer) error {
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
	lacking := missing(dir, want) // another process may have built them while this one waited
	tmp := dir + ".tmp"           // of this process, which has the lock; a process that was killed may have left files
	defer func() { _ = os.RemoveAll(tmp) }()
	_ = os.RemoveAll(tmp)
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	for _, o := range obtainers {
		if rest := missing(tmp, lacking); len(rest) > 0 {
			if err := o.obtain(ctx, rest, tmp); err != nil {
				return err
			}
		}
	}
	if rest := missing(tmp, lacking); len(rest) > 0 {
		return fmt.Errorf("could not get %s", strings.Join(rest, ", "))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range lacking {
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// lock lets only one process at a time fill a directory. The kernel releases the lock when its owner ends.
func (s *store) lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		s.progress.say("waiting for another process that is building the binaries")
	}
	for errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(200 * time.Millisecond):
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}

// present returns those of the names that are executable files in dir.
func present(dir string, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return dir == "" || err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || info.Size() == 0
	})
}

func missing(dir string, names []string) []string {
	has := present(dir, names)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(has, name) })
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
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

// linker obtains the shared binaries as links to those of another directory.
type linker string

func (from linker) obtain(_ context.Context, names []string, dir string) error {
	for _, name := range present(string(from), names) {
		if slices.Contains(shared, name) {
			if err := os.Symlink(filepath.Join(string(from), name), filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// store keeps complete binaries in a directory of the user's cache. A binary gets there only by a rename, so that the
// remains of an interrupted run are never taken for one.
type store struct {
	dir       string
	obtainers []obtainer
	log       *log.Logger
}

// ensure adds the missing binaries.
func (s *store) ensure(ctx context.Context, want []string) error {
	if len(missing(s.dir, want)) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.dir), 0o755); err != nil {
		return err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	lacking := missing(s.dir, want) // another process may have built them while this one waited
	tmp := s.dir + ".tmp"           // of this process, which has the lock; a process that was killed may have left files
	defer func() { _ = os.RemoveAll(tmp) }()
	_ = os.RemoveAll(tmp)
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	for _, o := range s.obtainers {
		if rest := missing(tmp, lacking); len(rest) > 0 {
			if err := o.obtain(ctx, rest, tmp); err != nil {
				return err
			}
		}
	}
	if rest := missing(tmp, lacking); len(rest) > 0 {
		return fmt.Errorf("could not get %s", strings.Join(rest, ", "))
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	for _, name := range lacking {
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// lock lets only one process at a time fill a directory. The kernel releases the lock when its owner ends.
func (s *store) lock(ctx context.Context) (unlock func(), err error) {
	path := s.dir + ".lock"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		s.log.Print("waiting for another process that is building the binaries")
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
		return err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || info.Size() == 0
	})
}

func missing(dir string, names []string) []string {
	has := present(dir, names)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(has, name) })
}

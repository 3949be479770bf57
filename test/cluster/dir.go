// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	dirPattern = "nodegate-cluster-"
	lockName   = "owner.lock"
)

// workDir is the directory of a cluster. Its owner holds a lock in it, which the kernel releases when the
// owner dies; so a directory that can be locked is one to be swept.
type workDir struct {
	path      string
	temporary bool
	lock      *os.File
}

func newWorkDir(path string) (*workDir, error) {
	w := &workDir{path: path}
	var err error
	if path == "" {
		sweep(os.TempDir())
		w.temporary = true
		w.path, err = os.MkdirTemp("", dirPattern)
	} else {
		if w.path, err = filepath.Abs(path); err == nil {
			err = os.MkdirAll(w.path, 0o700)
		}
	}
	if err != nil {
		return nil, err
	}
	if w.lock, err = lockDir(w.path); err != nil {
		if w.temporary {
			_ = os.RemoveAll(w.path)
		}
		return nil, err
	}
	return w, nil
}

// lockDir makes the lock file under another name first: a sweep looks only at files of the right name, and
// that one is locked from its first moment.
func lockDir(dir string) (*os.File, error) {
	name := filepath.Join(dir, lockName)
	if f, err := os.Open(name); err == nil {
		defer func() { _ = f.Close() }()
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			return nil, fmt.Errorf("%s is the directory of a running cluster", dir)
		}
		if _, err := os.Stat(filepath.Join(dir, "etcd")); err == nil {
			return nil, fmt.Errorf("%s holds the data of another cluster: remove it or name another directory", dir)
		}
	}
	f, err := os.CreateTemp(dir, lockName+".*")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB),
		os.Rename(f.Name(), name)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return f, nil
}

// close releases the directory, and removes it if it is a temporary one.
func (w *workDir) close() error {
	var err error
	if w.temporary {
		err = os.RemoveAll(w.path)
	}
	return errors.Join(err, w.lock.Close())
}

// sweep removes the temporary directories of dead owners. It does what it can: those of other users stay.
func sweep(in string) {
	locks, _ := filepath.Glob(filepath.Join(in, dirPattern+"*", lockName))
	for _, name := range locks {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(filepath.Dir(name))
		}
		_ = f.Close()
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a change is left to finish: a ConfigMap's update is several changes of its directory.
	settle = 100 * time.Millisecond
	// lookAgain is how often the file is read without a sign that it has changed, where signs may get lost.
	lookAgain = time.Minute
)

// Loader keeps the last good configuration of a file.
type Loader struct {
	// Path is the file. It may be absent, and appear later.
	Path string
	Log  *slog.Logger
	// Changed is called after each good configuration that differs from the one before.
	Changed func(*File)

	sum     [sha256.Size]byte
	current atomic.Pointer[File]
	problem atomic.Pointer[string]
}

// Current is the last good configuration, nil if there was none.
func (l *Loader) Current() *File { return l.current.Load() }

// Problem says what is wrong with the file as it stands; empty if nothing is.
func (l *Loader) Problem() string {
	if p := l.problem.Load(); p != nil {
		return *p
	}
	return ""
}

// Run reads the file now and whenever it changes, until ctx ends.
func (l *Loader) Run(ctx context.Context) {
	changes, stop := l.watch()
	defer stop()
	for {
		l.load()
		again := time.NewTimer(lookAgain)
		select {
		case <-ctx.Done():
			again.Stop()
			return
		case <-changes:
			again.Stop()
			wait(ctx, settle)
		case <-again.C:
			if changes == nil {
				changes, stop = l.watch()
				defer stop() // rarely more than one: until the directory is there
			}
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// watch watches the file's directory: a ConfigMap's file is a link that never changes itself. Without such a watch, the
// channel is nil and the file is read once a minute.
func (l *Loader) watch() (changes <-chan struct{}, stop func()) {
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		if err = watcher.Add(filepath.Dir(l.Path)); err != nil {
			_ = watcher.Close()
		}
	}
	if err != nil {
		l.Log.Info("The configuration's directory cannot be watched, looking once a minute", "file", l.Path, "error",
			err.Error())
		return nil, func() {}
	}
	out := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case _, ok := <-watcher.Events:
				if !ok {
					return
				}
			case _, ok := <-watcher.Errors: // such as an overflow: something has changed
				if !ok {
					return
				}
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, func() { _ = watcher.Close() }
}

// load reads the file. What is wrong with it is said once, and the last good configuration stays in force.
func (l *Loader) load() {
	raw, err := read(l.Path)
	var f *File
	if err == nil {
		f, err = Decode(raw)
	}
	if err != nil {
		text := err.Error()
		if l.Problem() != text {
			stays := "There is none before it"
			if l.Current() != nil {
				stays = "The last good one stays in force"
			}
			l.Log.Error("The configuration cannot be used. "+stays, "file", l.Path, "error", text)
		}
		l.problem.Store(&text)
		return
	}
	if l.Problem() != "" {
		l.Log.Info("The configuration is good again", "file", l.Path)
	}
	l.problem.Store(nil)
	sum := sha256.Sum256(raw)
	if l.Current() != nil && sum == l.sum {
		return
	}
	l.sum = sum
	l.current.Store(f)
	l.Log.Info("The configuration is loaded", "file", l.Path, "rules", len(f.Rules))
	if l.Changed != nil {
		l.Changed(f)
	}
}

// read reads no more than a configuration may have.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.LimitReader(file, MaxSize+2))
	if err != nil {
		return nil, err
	}
	if len(raw) > MaxSize+1 {
		return nil, fmt.Errorf("%s: %w", path, ErrTooLarge)
	}
	return raw, nil
}

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
	"sync/atomic"
	"time"
)

const (
	// lookPeriod is how often the loader looks whether the file has changed. The kubelet takes up to a minute to update a
	// mounted ConfigMap, so a watch of the directory would save nothing.
	lookPeriod = time.Second
	// readPeriod is how often the loader reads the file even if it looks unchanged.
	readPeriod = time.Minute
)

// Loader keeps the last good configuration of a file.
type Loader struct {
	// Path is the file. It may be missing at first.
	Path string
	Log  *slog.Logger
	// Changed is called after each good configuration that differs from the one before.
	Changed func()

	sum     [sha256.Size]byte
	current atomic.Pointer[File]
	problem atomic.Pointer[string]
}

// Current returns the last good configuration, or nil if there was none.
func (l *Loader) Current() *File { return l.current.Load() }

// Problem returns why the file cannot be used; empty if it can.
func (l *Loader) Problem() string {
	if p := l.problem.Load(); p != nil {
		return *p
	}
	return ""
}

// Run reads the file now and whenever it changes, until ctx ends.
func (l *Loader) Run(ctx context.Context) {
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	var last os.FileInfo
	var readAt time.Time
	for {
		info, err := os.Stat(l.Path) // follows the links of a mounted ConfigMap, which are what changes there
		if err != nil || time.Since(readAt) >= readPeriod || !os.SameFile(info, last) || info.Size() != last.Size() ||
			!info.ModTime().Equal(last.ModTime()) {
			l.Load()
			last, readAt = info, time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// Load reads the file. It logs a problem once, and the last good configuration stays in force.
func (l *Loader) Load() {
	raw, err := read(l.Path)
	var f *File
	if err == nil {
		f, err = Decode(raw)
	}
	if err != nil {
		text := err.Error()
		if l.Problem() != text {
			stays := "There is no earlier one"
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
	if len(f.Unknown()) > 0 {
		l.Log.Warn("Ignoring fields of the configuration that this version does not know", "fields", f.Unknown())
	}
	l.Changed()
}

// read reads at most the size of a valid configuration.
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

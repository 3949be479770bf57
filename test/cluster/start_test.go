// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAStartThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	Must(t, takeSlot()) // the wait for it is no part of the start
	assets, err := Assets(t.Context(), os.Stderr)
	Must(t, err)
	for name, test := range map[string]struct {
		change func(t *testing.T, o *Options)
		want   []string
	}{
		"the API server refuses its arguments": {
			change: func(_ *testing.T, o *Options) { o.APIServerArgs = []string{"--no-such-flag"} },
			want:   []string{"starting kube-apiserver", "unknown flag: --no-such-flag"},
		},
		"etcd cannot start": {
			change: func(t *testing.T, o *Options) {
				o.Assets = t.TempDir()
				Must(t, os.Symlink(filepath.Join(assets, "kube-apiserver"), filepath.Join(o.Assets, "kube-apiserver")))
				Must(t, os.WriteFile(filepath.Join(o.Assets, "etcd"), []byte("#!/bin/sh\necho no disk; exit 1\n"), 0o700))
			},
			want: []string{"starting etcd", "no disk"},
		},
		"a binary is missing": {
			change: func(t *testing.T, o *Options) { o.Assets = t.TempDir() },
			want:   []string{"starting ", "no such file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			o := Options{Assets: assets}
			test.change(t, &o)
			began := time.Now()
			c, err := Start(t.Context(), o)
			if err == nil {
				_ = c.Stop()
				t.Fatal("it started")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			if took := time.Since(began); took > readyLimit/2 {
				t.Errorf("it took %s", took)
			}
			if left, _ := filepath.Glob(filepath.Join(tmp, dirPattern+"*")); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func TestAStartEndsWithItsContext(t *testing.T) {
	assets, err := Assets(t.Context(), os.Stderr)
	Must(t, err)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	c, err := Start(ctx, Options{Assets: assets})
	if err == nil {
		_ = c.Stop()
		t.Fatal("it started")
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, dirPattern+"*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

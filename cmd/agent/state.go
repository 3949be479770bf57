// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/internal/agent/config"
)

// savedState has the last good configuration and the labels of the node, in a file that survives a restart of the
// container. With it, a restart while the API server is unavailable changes nothing.
type savedState struct {
	// Node and UID identify the node. The state of another node is dropped.
	Node   string            `json:"node"`
	UID    types.UID         `json:"uid"`
	Labels map[string]string `json:"labels"`
	Config *config.File      `json:"config"`
}

// stateFile keeps a savedState in memory, for a node that disappears, and in a file if it has a path.
type stateFile struct {
	path, node string
	log        *slog.Logger
	saved      *savedState // nil if there is none
	unwritten  chan []byte // the last state that is not in the file yet
}

// readState reads the state of a node, if there is one.
func readState(path, node string, log *slog.Logger) *stateFile {
	f := &stateFile{path: path, node: node, log: log, unwritten: make(chan []byte, 1)}
	if path == "" {
		return f
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f
	}
	saved := &savedState{}
	if err == nil {
		err = json.Unmarshal(raw, saved)
	}
	switch {
	case err != nil:
		log.Warn("The saved state cannot be read and is dropped", "file", path, "error", err.Error())
	case saved.Node != node || saved.UID == "" || saved.Config == nil:
		log.Info("The saved state is of another node and is dropped", "file", path)
	default:
		f.saved = saved
	}
	return f
}

// current returns the configuration and the labels in force: the current ones or, while one of them is unknown, the
// saved ones. fresh reports whether both are current.
func (f *stateFile) current(file *config.File, node *corev1.Node) (_ *config.File, labels map[string]string, fresh,
	ok bool) {
	if node != nil && f.saved != nil && f.saved.UID != node.UID {
		f.log.Info("The saved state is of another node and is dropped", "file", f.path)
		f.saved = nil
	}
	fresh = file != nil && node != nil
	if f.saved != nil {
		file, labels = cmp.Or(file, f.saved.Config), f.saved.Labels
	}
	if node != nil {
		labels = node.Labels
	}
	return file, labels, fresh, file != nil && (node != nil || f.saved != nil)
}

// save remembers the state, and has it written if it has changed.
func (f *stateFile) save(file *config.File, node *corev1.Node) {
	if s := f.saved; s != nil && s.UID == node.UID && s.Config == file && maps.Equal(s.Labels, node.Labels) {
		return
	}
	f.saved = &savedState{Node: f.node, UID: node.UID, Labels: node.Labels, Config: file}
	if f.path == "" {
		return
	}
	raw, _ := json.Marshal(f.saved) // it was read from JSON: cannot fail
	select {
	case <-f.unwritten: // the new state replaces it
	default:
	}
	f.unwritten <- raw
}

// start writes states in the background: the disk may hang. It only logs a failure, because the agent works without
// the file. stop waits for the last write, for a second at most.
func (f *stateFile) start() (stop func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for raw := range f.unwritten {
			err := os.WriteFile(f.path+".new", raw, 0o600)
			if err == nil {
				err = os.Rename(f.path+".new", f.path)
			}
			if err != nil {
				f.log.Warn("The state cannot be saved", "file", f.path, "error", err.Error())
			}
		}
	}()
	return func() {
		close(f.unwritten)
		select {
		case <-ended:
		case <-time.After(time.Second):
		}
	}
}

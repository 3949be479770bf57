// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/internal/agent/config"
)

// savedState has what the answers depend on, in a file that survives a restart of the container. With it, a restart
// while the API server is unavailable changes nothing.
type savedState struct {
	// Object is the node, with the fields that the agent uses. The state of another node is dropped.
	Object *corev1.Node `json:"object"`
	// Config is the last good configuration; nil: there was none.
	Config *config.File `json:"config,omitempty"`
}

// stateFile keeps a savedState in memory, for a node that disappears, and in a file if it has a path.
type stateFile struct {
	path      string
	log       *slog.Logger
	saved     *savedState // nil if there is none
	unwritten chan []byte // the last state that is not in the file yet
}

// readState reads the state of a node, if there is one.
func readState(path, node string, log *slog.Logger) *stateFile {
	f := &stateFile{path: path, log: log, unwritten: make(chan []byte, 1)}
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
	case saved.Object == nil || saved.Object.Name != node || saved.Object.UID == "":
		log.Info("The saved state is of another node and is dropped", "file", path)
	default:
		f.saved = saved
	}
	return f
}

// node returns the saved node; nil if there is none.
func (f *stateFile) node() *corev1.Node {
	if f.saved == nil {
		return nil
	}
	return f.saved.Object
}

// current returns the configuration and the node in force: the current ones or, while one of them is unknown, the saved
// ones. known reports whether the API server has answered: otherwise the node is the saved one. fresh reports
// whether both are current.
func (f *stateFile) current(file *config.File, node *corev1.Node, known bool) (_ *config.File, _ *corev1.Node,
	fresh, ok bool) {
	if known && node != nil && f.saved != nil && f.saved.Object.UID != node.UID {
		f.log.Info("The saved state is of another node and is dropped", "file", f.path)
		f.saved = nil
	}
	fresh = file != nil && node != nil && known
	if f.saved != nil {
		file, node = cmp.Or(file, f.saved.Config), cmp.Or(node, f.saved.Object)
	}
	if file == nil || node == nil {
		return nil, nil, false, false
	}
	return file, node, fresh, true
}

// save remembers the state of a node that the API server knows, and has it written if an answer may depend on what has
// changed, or in any case with always. file may be nil: the saved one stays.
func (f *stateFile) save(file *config.File, node *corev1.Node, always bool) {
	if f.saved != nil {
		file = cmp.Or(file, f.saved.Config)
		if !always && f.saved.Config == file && sameAnswers(f.saved.Object, node) {
			return
		}
	}
	f.saved = &savedState{Object: node, Config: file}
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

// sameAnswers reports whether two states of a node differ only in heartbeats and messages, on which no answer depends.
func sameAnswers(a, b *corev1.Node) bool {
	essence := func(node *corev1.Node) *corev1.Node {
		node = node.DeepCopy()
		node.ResourceVersion = ""
		for i := range node.Status.Conditions {
			c := &node.Status.Conditions[i]
			c.LastHeartbeatTime, c.Message = metav1.Time{}, ""
		}
		return node
	}
	return reflect.DeepEqual(essence(a), essence(b))
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

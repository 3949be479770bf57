// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const (
	// idleFor is for how long a process must ask for nothing to count as done: more than the two seconds after which
	// the operator writes a status again.
	idleFor = 3 * time.Second
	// idleLimit is when it should be.
	idleLimit = 2 * time.Minute
)

// auditPolicy makes the API server write down each request of the contestants, and of nobody else.
func auditPolicy() string {
	return fmt.Sprintf(`
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: [%s, %s]
- level: None
`, operatorUser, floorUser)
}

// auditEvent is a line of an audit log (audit.k8s.io/v1), as far as it is of use here.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
}

// requests are what a contestant has asked for in a phase.
type requests struct {
	nodePatches, refused int // accepted, and refused
	events               int
	statusWrites         int
	ruleWrites           int // finalizers
	other                map[string]int
	all                  int                    // but watches
	watches              int                    // that have ended
	statusTimes          map[string][]time.Time // rule by rule
	failed               map[string]int         // by what was asked for and the answer
}

// count adds a request. Watches are counted apart, when they end, as they do now and then whatever happens.
func (r *requests) count(e *auditEvent) {
	if e.Verb == "watch" {
		r.watches++
		return
	}
	r.all++
	what := e.Verb + " " + e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		what += "/" + e.ObjectRef.Subresource
	}
	if e.ResponseStatus.Code >= 400 {
		increment(&r.failed, fmt.Sprintf("%s: %d", what, e.ResponseStatus.Code))
	}
	writes := e.Verb == "patch" || e.Verb == "update" || e.Verb == "create"
	switch resource := strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/"); {
	case e.Verb == "patch" && resource == "nodes" && e.ResponseStatus.Code >= 400:
		r.refused++
	case e.Verb == "patch" && resource == "nodes":
		r.nodePatches++
	case writes && resource == "events":
		r.events++
	case writes && resource == "nodereadinessrules/status":
		r.statusWrites++
		if r.statusTimes == nil {
			r.statusTimes = map[string][]time.Time{}
		}
		r.statusTimes[e.ObjectRef.Name] = append(r.statusTimes[e.ObjectRef.Name], e.Received)
	case writes && resource == "nodereadinessrules":
		r.ruleWrites++
	default:
		increment(&r.other, what)
	}
}

func increment(m *map[string]int, key string) {
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[key]++
}

// auditLog reads the API server's audit log as it grows.
type auditLog struct {
	path   string
	offset int64
}

func newAuditLog(path string) *auditLog { return &auditLog{path: path} }

// read adds what is new of a user to the requests, and reports whether there was any.
func (l *auditLog) read(user string, r *requests) (bool, error) {
	f, err := os.Open(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return false, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return false, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the rest is being written
	l.offset += int64(len(text))
	before := r.all
	for line := range bytesLines(text) {
		e := &auditEvent{}
		if err := json.Unmarshal(line, e); err != nil {
			return false, fmt.Errorf("%s: %w", l.path, err)
		}
		if e.User.Username == user {
			r.count(e)
		}
	}
	return r.all > before, nil
}

// quiet waits until a user has asked for nothing for a while.
func (l *auditLog) quiet(ctx context.Context, user string, r *requests) error {
	limit, last := time.Now().Add(idleLimit), time.Now()
	for time.Since(last) < idleFor {
		if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
		more, err := l.read(user, r)
		if err != nil {
			return err
		}
		if more {
			last = time.Now()
		}
		if time.Now().After(limit) {
			return fmt.Errorf("it still sends requests %s after its work was done", idleLimit)
		}
	}
	return nil
}

// bytesLines are the lines that have something in them.
func bytesLines(text []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for line := range bytes.Lines(text) {
			if line = bytes.TrimRight(line, "\n"); len(line) > 0 && !yield(line) {
				return
			}
		}
	}
}

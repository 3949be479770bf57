// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// idleFor is for how long a process must ask for nothing to count as done: more than the two seconds after which
	// the operator writes a status again.
	idleFor = 3 * time.Second
	// idleLimit is when it should be: events and statuses of a burst come after its last patch.
	idleLimit = 10 * time.Minute
)

// auditPolicy makes the API server log each request of the contestants, and no others.
func auditPolicy() string {
	return fmt.Sprintf(`
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: [%s]
- level: None
`, userStem+strings.Join(contestants, ", "+userStem))
}

// The kinds of requests that are counted until the last taint has changed.
const (
	kindPatch  = "node patches"
	kindEvent  = "events"
	kindStatus = "status writes"
	kindOther  = "others"
)

// requests are the requests of a contestant in a phase.
type requests struct {
	nodePatches, refused int // accepted, and refused
	events               int
	statusWrites         int
	writes               int // of anything, refused or not
	other                map[string]int
	all                  int                    // but watches, and what is asked for from time to time
	latest               string                 // of all
	statusTimes          map[string][]time.Time // rule by rule
	received             map[string][]time.Time // by kind
	failed               map[string]int         // by what was asked for and the answer
}

// periodic reports whether a replica sends the request from time to time, idle or not: every ten seconds it looks for
// other controllers, every five it reads the version of the API server's data, every thirty the rules for admission.
func periodic(what, uri string) bool {
	return what == "list leases" || what == "get admissionrules" ||
		what == "list nodes" && strings.HasSuffix(uri, "?limit=1")
}

// count adds a request.
func (r *requests) count(e *auditv1.Event) {
	if e.Verb == "watch" {
		return // it is logged when it ends, as it does from time to time
	}
	object, code := ptr.Deref(e.ObjectRef, auditv1.ObjectReference{}), ptr.Deref(e.ResponseStatus, metav1.Status{}).Code
	resource := strings.TrimSuffix(object.Resource+"/"+object.Subresource, "/")
	if code < 400 && periodic(e.Verb+" "+resource, e.RequestURI) {
		return
	}
	r.all, r.latest = r.all+1, fmt.Sprintf("%s %s %s", e.Verb, resource, object.Name)
	if code >= 400 {
		r.failed[fmt.Sprintf("%s %s: %d", e.Verb, resource, code)]++
	}
	writes := e.Verb != "get" && e.Verb != "list"
	if writes {
		r.writes++
	}
	kind := kindOther
	switch {
	case e.Verb == "patch" && resource == "nodes" && code >= 400:
		r.refused++
	case e.Verb == "patch" && resource == "nodes":
		kind = kindPatch
		r.nodePatches++
	case writes && resource == "events":
		kind = kindEvent
		r.events++
	case writes && resource == "nodereadinessrules/status":
		kind = kindStatus
		r.statusWrites++
		r.statusTimes[object.Name] = append(r.statusTimes[object.Name], e.RequestReceivedTimestamp.Time)
	default:
		r.other[e.Verb+" "+resource]++
	}
	r.received[kind] = append(r.received[kind], e.RequestReceivedTimestamp.Time)
}

// until counts the requests of a kind that the API server received before a time.
func (r *requests) until(kind string, end time.Time) (n int) {
	for _, t := range r.received[kind] {
		if t.Before(end) {
			n++
		}
	}
	return n
}

func newRequests() *requests {
	return &requests{other: map[string]int{}, statusTimes: map[string][]time.Time{},
		received: map[string][]time.Time{}, failed: map[string]int{}}
}

// auditLog reads the API server's audit log as it grows.
type auditLog struct {
	path   string
	offset int64
}

func newAuditLog(path string) *auditLog { return &auditLog{path: path} }

// read adds what is new of a user to the requests, and reports whether there was any.
func (l *auditLog) read(user string, r *requests) (bool, error) {
	events, offset, err := cluster.ReadAuditFrom[auditv1.Event](l.path, l.offset)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	l.offset = offset
	before := r.all
	for i := range events {
		if events[i].User.Username == user {
			r.count(&events[i])
		}
	}
	return r.all > before, err
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
			return fmt.Errorf("it still sends requests %s after its work was done, the latest: %s", idleLimit, r.latest)
		}
	}
	return nil
}

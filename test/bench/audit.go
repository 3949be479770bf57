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

// The kinds of requests.
const (
	kindPatch   = "node patches"
	kindRefused = "refused node patches"
	kindEvent   = "events"
	kindStatus  = "status writes"
	kindOther   = "others"
)

// requests are the requests of a contestant in a phase, but watches, and what is asked for from time to time.
type requests struct {
	received map[string][]time.Time // by kind
	other    map[string]int         // those of kindOther, and those that failed
	writes   int                    // of anything, refused or not
	latest   string
}

// periodic reports whether a replica sends the request from time to time, idle or not: every ten seconds it looks for
// other controllers, every five it reads the version of the API server's data, every thirty the rules for admission.
func periodic(what, uri string) bool {
	return what == "list leases" || what == "get admissionrules" ||
		what == "list nodes" && strings.HasSuffix(uri, "?limit=1")
}

// add adds a request.
func (r *requests) add(e *auditv1.Event) {
	if e.Verb == "watch" {
		return // it is logged when it ends, as it does from time to time
	}
	object, code := ptr.Deref(e.ObjectRef, auditv1.ObjectReference{}), ptr.Deref(e.ResponseStatus, metav1.Status{}).Code
	resource := strings.TrimSuffix(object.Resource+"/"+object.Subresource, "/")
	if code < 400 && periodic(e.Verb+" "+resource, e.RequestURI) {
		return
	}
	r.latest = fmt.Sprintf("%s %s %s", e.Verb, resource, object.Name)
	writes := e.Verb != "get" && e.Verb != "list"
	if writes {
		r.writes++
	}
	kind := kindOther
	switch {
	case e.Verb == "patch" && resource == "nodes" && code >= 400:
		kind = kindRefused
	case e.Verb == "patch" && resource == "nodes":
		kind = kindPatch
	case writes && resource == "events":
		kind = kindEvent
	case writes && resource == "nodereadinessrules/status":
		kind = kindStatus
	}
	if code >= 400 {
		r.other[fmt.Sprintf("%s %s: %d", e.Verb, resource, code)]++
	} else if kind == kindOther {
		r.other[e.Verb+" "+resource]++
	}
	r.received[kind] = append(r.received[kind], e.RequestReceivedTimestamp.Time)
}

// count returns how many requests are of a kind.
func (r *requests) count(kind string) int { return len(r.received[kind]) }

// all returns how many requests there are.
func (r *requests) all() (n int) {
	for _, times := range r.received {
		n += len(times)
	}
	return n
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
	return &requests{received: map[string][]time.Time{}, other: map[string]int{}}
}

// auditLog reads the API server's audit log as it grows.
type auditLog struct {
	path   string
	offset int64
}

// read adds what is new of a user to the requests, and reports whether there was any.
func (l *auditLog) read(user string, r *requests) (bool, error) {
	events, offset, err := cluster.ReadAuditFrom[auditv1.Event](l.path, l.offset)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	l.offset = offset
	before := r.all()
	for i := range events {
		if events[i].User.Username == user {
			r.add(&events[i])
		}
	}
	return r.all() > before, err
}

// quiet waits until a user has asked for nothing for a while.
func (l *auditLog) quiet(ctx context.Context, user string, r *requests) error {
	ctx, cancel := context.WithTimeout(ctx, idleLimit)
	defer cancel()
	for last := time.Now(); time.Since(last) < idleFor; {
		if !sleep(ctx, 100*time.Millisecond) {
			return fmt.Errorf("it still sends requests after its work was done, the latest: %s: %w", r.latest, ctx.Err())
		}
		more, err := l.read(user, r)
		if err != nil {
			return err
		}
		if more {
			last = time.Now()
		}
	}
	return nil
}

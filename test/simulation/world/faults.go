// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/replica"
)

// underWay is for how long a request of a process that is gone may still reach the API server.
const underWay = time.Minute

// Met is what met a fault.
type Met struct {
	// Requests is how many requests there were; Patches is how many of these were patches of nodes.
	Requests, Patches int
}

// The faults that are no fates, as the table of faults has them.
const (
	landed  = "a write of a killed process lands later"
	deposed = "a write of a deposed leader lands after the next one has counted"
	changed = "the object changed while the patch was under way (422)"

	policyRefuses = "a policy refuses all writes of one node (422)"
)

// Faults are the faults that random stories must meet. True are those that patches of nodes meet.
var Faults = map[string]bool{
	string(replica.Refused): true, string(replica.Throttle): true, string(replica.Broken): true,
	string(replica.Spoilt): true, string(replica.Lost): true, string(replica.Never): true, string(replica.Twice): true,
	string(replica.Killed): true, string(replica.Dead): true, landed: true, deposed: true, changed: true,
	policyRefuses:       true,
	"a live read fails": false, "an API server is behind what the former process had seen": false,
	"rules change while a reconcile reads":          false,
	"a watch is cut while events wait, and resumes": false, "a watch is cut while events wait, and lists again": false,
}

// met counts a fault that changed what happened.
func (w *World) met(fault, kind string, patch bool) {
	m := w.faults[fault]
	m.Requests++
	if patch && kind == string(api.Nodes) {
		m.Patches++
	}
	w.faults[fault] = m
}

// answer lets the k-th parked write of a replica meet its fate. A write that is not there has none.
func (w *World) answer(r *replica.Replica, k int, fate replica.Fate) {
	if len(r.Parked) == 0 {
		return
	}
	k %= len(r.Parked)
	write, leads := r.Parked[k], !r.Deposed
	r.Parked = append(r.Parked[:k:k], r.Parked[k+1:]...)
	if write.Verb == replica.Read {
		write.Meet(fate, nil)
		return
	}
	if fate == replica.Late {
		w.late = append(w.late, write)
	}
	tries, moved, failed := 0, 0, false
	was, is := w.server.Get(write.Kind, write.Key()), (*api.Object)(nil)
	write.Meet(fate, func(req api.Request) (*api.Object, error) {
		before := w.writes
		object, err := w.apply(write, req)
		tries++
		moved += w.writes - before
		failed, is = err != nil, w.server.Get(write.Kind, write.Key())
		if !leads && w.writes > before {
			w.met(deposed, string(req.Kind), req.Verb == "patch")
		}
		if fate == replica.Through && req.Patch != "" && apierrors.IsInvalid(err) && !w.refused[req.Name] {
			w.met(changed, string(req.Kind), true)
		}
		return object, err
	})
	if fate == replica.Through && moved > 0 {
		w.Model.Told(string(write.Kind), document(was), document(is), r.Told, write.View)
	}
	if write.Kind == api.Nodes && (fate != replica.Through || failed) {
		w.Model.Stumbled(write.Name)
	}
	if !asWithout(fate, tries, moved, failed) {
		w.met(string(fate), string(write.Kind), write.Verb == "patch")
	}
}

// asWithout reports whether a write of some tries, of which some changed the object, went as without its fault.
func asWithout(fate replica.Fate, tries, moved int, failed bool) bool {
	return fate == replica.Late || fate == replica.Through || tries > 0 && moved == 0 ||
		fate == replica.Twice && moved == 1 && !failed
}

// brink lets a replica do everything but some writes, which are under way then: those of marks or of published
// conditions of nodes, of their other fields, or of another kind.
func (w *World) brink(r *replica.Replica, of string) {
	w.concerned = 0
	for turn := 0; turn < maxTurns && w.Model.Failure == ""; turn++ {
		tell(r)
		working := r.Work(0)
		switch at := slices.IndexFunc(r.Parked, func(write *replica.Write) bool { return partOf(write) != of }); {
		case at >= 0:
			w.answer(r, at, replica.Through)
		case !working:
			for _, write := range r.Parked[:min(1, len(r.Parked))] {
				_, _ = fmt.Sscanf(write.Name[1:], "%d", &w.concerned) // nodes, their NodeClaims and pods are named alike
			}
			return
		}
	}
}

// partOf says what a write is about.
func partOf(write *replica.Write) string {
	switch {
	case write.Verb == replica.Read:
		return write.Verb
	case write.Kind == api.Nodes && write.Sub == "status":
		return "conditions"
	case write.Kind == api.Nodes && write.Patch == types.MergePatchType:
		return "marks"
	}
	return string(write.Kind)
}

// land lets the k-th write of a process that is gone reach the API server.
func (w *World) land(k int) {
	if len(w.late) == 0 {
		return
	}
	k %= len(w.late)
	write, before := w.late[k], w.writes
	w.late = append(w.late[:k:k], w.late[k+1:]...)
	if w.now.Sub(write.Sent) > underWay {
		return
	}
	if _, err := w.apply(write, write.Request); err == nil && w.writes > before {
		w.met(landed, string(write.Kind), write.Verb == "patch")
	}
}

// apply carries out a write of a replica, and lets the model judge it.
func (w *World) apply(write *replica.Write, req api.Request) (*api.Object, error) {
	before := w.server.Get(req.Kind, write.Key())
	object, err := w.server.Do(req)
	after := w.server.Get(req.Kind, write.Key())
	w.trace("     %s %s %s %s %s%v: changed: %t, error: %v", req.Verb, req.Kind, write.Key(), req.Sub, req.Body,
		req.Tree, before != after, err)
	if err != nil || before == after {
		return object, err
	}
	if req.Kind != api.KeptEndpoints { // it is renewed all the time
		w.wrote = w.now
	}
	w.writes++
	w.digest = w.digest*31 + req.Digest()
	w.Model.Move(string(req.Kind), document(before), document(after), write.View)
	return object, nil
}

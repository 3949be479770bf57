// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world plays a script: it has the API server, the replicas of the operator, and the actors around them, in one
// thread and in virtual time.
package world

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/model"
	"github.com/nodegate/nodegate/test/simulation/replica"
	"github.com/nodegate/nodegate/test/simulation/script"
)

const (
	// beatEvery is how often kubelet and the reporters repeat what they said, at rest.
	beatEvery = 5 * time.Minute
	// quiet is for how long no replica writes before the model looks at the end.
	quiet = 16 * time.Minute
	// maxTurns bounds the way to rest.
	maxTurns = 5000
)

// start is when every story starts.
var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// Definitions are what is installed in the cluster.
type Definitions struct {
	// CRDs are the CRDs that may be served, by name: ours, and a foreign one.
	CRDs map[string]*api.Definition
	// Records is the policy that protects records and overrides; Annotations is the one that bounds them.
	Records, Annotations *api.Policy
	// Admission is the policy that taints nodes; Endpoints is the one that keeps pods ready.
	Admission, Endpoints *api.Mutating
	// Trace is told of each step, and of each write of the operator; nil, if none listens.
	Trace func(line string)
}

// World is a story under way.
type World struct {
	Model *model.Model

	definitions Definitions
	script      *script.Script
	around      *replica.World
	successors  []string // while the rules move to another API group: UIDs, each with that of the next rule
	server      *api.Server
	now         time.Time
	wrote       time.Time
	replicas    []*replica.Replica
	boots       map[int]int
	served      string          // the CRD
	others      *replica.Others // nil where no other controller runs
	forbidden   bool
	refused     map[string]bool       // nodes of which a policy refuses all writes of the operator
	lost        map[int]bool          // nodes that the node controller has found lost
	cut         map[int]time.Time     // nodes whose link is cut, and since when
	ahead       map[int]time.Duration // for how long the clocks of nodes have been set forward
	evicted     map[types.UID]tried   // by pod
	machines    int                   // that Karpenter has launched
	pools       int64                 // of devices that were published
	reviews     int
	told        int64 // the version of the rules that the policy sees at least
	writes      int
	digest      uint64
	late        []*replica.Write // of processes that are gone
	concerned   int              // the node that a write under way is about
	faults      map[string]Met
	seen        int64     // the version that the model has observed last
	seenAt      time.Time // when
	view        *model.View
	viewed      int64 // the version of the view
}

// Result is what became of a story.
type Result struct {
	// Failure says which predicate was violated, and how; empty if none was.
	Failure string
	// Writes is how many the replicas made; Digest tells two runs apart.
	Writes int
	Digest uint64
	// Decisive counts, by predicate, how often it had something to say.
	Decisive map[string]int
	// Faults counts what met a fault that changed what happened.
	Faults map[string]Met
	// Fields are those that rules in force have had.
	Fields map[string]bool
	// Starts is how many starts of nodes the operator may have counted, by rule.
	Starts map[string]int
}

// Play plays a script to its end.
func Play(s *script.Script, definitions Definitions) Result {
	w := &World{definitions: definitions, script: s, now: start, served: "ours", boots: map[int]int{},
		lost: map[int]bool{}, refused: map[string]bool{}, cut: map[int]time.Time{}, ahead: map[int]time.Duration{},
		evicted: map[types.UID]tried{}, faults: map[string]Met{}}
	w.Model = model.New(w.time)
	w.Model.Skewed, w.Model.Unguarded, w.Model.Webhooks = w.skewed, s.Unguarded, s.Webhooks
	w.server = api.New(w.time, definitions.CRDs["ours"])
	w.server.Admit = w.admit
	around := &replica.World{Server: w.server, Now: w.time, Forbidden: func() bool { return w.forbidden },
		Watches:  func(k api.Kind, in, labels string) { w.Model.Watches(string(k), in, labels) },
		Met:      func(fault, kind string) { w.met(fault, kind, false) },
		Webhooks: s.Webhooks, Policy: s.Policy, Unguarded: s.Unguarded, Endpoints: s.Endpoints, Leases: w.leases}
	w.around = around
	if s.Beside {
		w.others = &replica.Others{Assumed: w.Model.Assumed}
		around.Others = w.others
	}
	for i := range max(1, s.Replicas) {
		r := replica.New(i, around)
		r.Start()
		w.replicas = append(w.replicas, r)
	}
	w.elect()
	defer func() { // their coroutines end
		for _, r := range w.replicas {
			r.Kill()
		}
	}()
	w.run()
	return Result{Failure: w.Model.Failure, Writes: w.writes, Digest: w.digest, Decisive: w.Model.Decisive,
		Faults: w.faults, Fields: w.Model.Fields, Starts: w.Model.Starts}
}

func (w *World) time() time.Time { return w.now }

// trace tells a listener what happens.
func (w *World) trace(format string, args ...any) {
	if w.definitions.Trace != nil {
		w.definitions.Trace(w.now.Format(time.TimeOnly) + " " + fmt.Sprintf(format, args...))
	}
}

func (w *World) run() {
	for i := range w.script.Steps {
		w.trace("%3d. %s", i+1, &w.script.Steps[i])
		if step := w.script.Steps[i]; step.Node != script.Concerned {
			w.do(&step)
		} else if step.Node = w.concerned; step.Node > 0 {
			w.do(&step)
		}
		w.elect()
		if w.Model.Failure != "" {
			return
		}
	}
	w.rest()
}

// elect makes a replica the leader, where none is.
func (w *World) elect() {
	var first *replica.Replica
	for _, r := range w.replicas {
		if r.Up && r.Leads && !r.Deposed {
			return
		}
		if r.Up && !r.Deposed && first == nil {
			first = r
		}
	}
	if first != nil {
		first.Lead()
	}
}

// rest lets everything come to rest, without further faults, and asks the model about the end.
func (w *World) rest() {
	w.trace("everything comes to rest")
	w.forbidden, w.late, w.refused = false, nil, map[string]bool{}
	for _, r := range w.replicas {
		r.Unread, r.Pauses, r.Reads = 0, 0, replica.Readable
	}
	w.serve("ours", false)
	w.doGroup(&script.Step{Do: "group.handover"})
	w.recover()
	w.wrote = w.now
	beat := w.now
	for turn := 0; ; turn++ {
		if turn == maxTurns {
			if !w.Model.AsksAgain(w.present()) {
				w.Model.Fail("quiescence", fmt.Sprintf("the replicas still write after %d turns", maxTurns))
			}
			return
		}
		if !w.now.Before(beat) {
			w.beatAll()
			beat = w.now.Add(beatEvery)
		}
		if !w.server.Serves() {
			w.serve("ours", false)
			w.recover()
		}
		w.calm()
		w.evict()
		if w.Model.Failure != "" {
			return
		}
		if w.now.Sub(w.wrote) >= quiet { // what is due now is done
			break
		}
		next := beat
		for _, r := range w.replicas {
			if at := r.Next(); !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if _, at := w.nextLost(); !at.IsZero() && at.Before(next) {
			next = at
		}
		w.advance(next)
	}
	w.Model.Rest(w.by(w.leader()))
}

// recover starts all replicas, and ends those that have lost their lease.
func (w *World) recover() {
	for _, r := range w.replicas {
		if r.Deposed {
			w.drain(r)
			r.Kill()
		}
		if !r.Up {
			r.Start()
		}
	}
	w.elect()
}

// drain lets all writes of a replica through.
func (w *World) drain(r *replica.Replica) {
	for len(r.Parked) > 0 {
		w.answer(r, 0, replica.Through)
	}
}

// calm lets the replicas do everything that there is to do now, in fair order.
func (w *World) calm() {
	for turn := 0; ; turn++ {
		idle := true
		for _, r := range w.replicas {
			idle = idle && r.Idle()
			w.turn(r)
			w.elect()
		}
		if idle || w.Model.Failure != "" {
			return
		}
		if turn == maxTurns {
			w.Model.Fail("quiescence", fmt.Sprintf("the replicas are busy forever at %s", w.now.Format(time.TimeOnly)))
			return
		}
	}
}

func (w *World) turn(r *replica.Replica) {
	tell(r)
	for r.Work(0) {
		w.drain(r)
	}
	w.drain(r)
}

// tell delivers everything to a replica, and tells all of its handlers.
func tell(r *replica.Replica) {
	for _, k := range api.Kinds {
		r.Deliver(k, -1)
		r.NotifyAll(k)
	}
	r.Background()
}

// begin starts all work that a replica has to do, and finishes none: its writes wait for their fates.
func begin(r *replica.Replica) {
	tell(r)
	for r.Work(0) {
	}
}

// settle lets one replica do everything that it has to do now.
func (w *World) settle(r *replica.Replica) {
	for turn := 0; turn < maxTurns && !r.Idle() && w.Model.Failure == ""; turn++ {
		w.turn(r)
	}
}

// document is an object for the model, nil for none.
func document(o *api.Object) model.Document {
	if o == nil {
		return nil
	}
	return o
}

// all are the objects of a kind, for the model.
func (w *World) all(kind api.Kind) []model.Document {
	objects, _ := w.server.List(kind)
	return documents(objects)
}

func documents(objects []*api.Object) []model.Document {
	out := make([]model.Document, len(objects))
	for i, o := range objects {
		out[i] = o
	}
	return out
}

// Predicate is the name of the predicate that a failure is of.
func Predicate(failure string) string {
	name, _, _ := strings.Cut(failure, ":")
	return name
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replica is one process of the operator in the simulation: the real reconcilers, with watches that lag. A
// Reconcile is a coroutine that parks at each write, and if it is told to, before it reads evidence. It alone imports
// the operator.
package replica

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodegate/nodegate/api/v1alpha1"
	nodeadmission "github.com/nodegate/nodegate/internal/admission/node"
	"github.com/nodegate/nodegate/internal/controller/admissionrules"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/guard/eviction"
	"github.com/nodegate/nodegate/internal/operator"
	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/model"
)

// Replica is one process of the operator, which is killed and started again.
type Replica struct {
	// Up and Leads are whether it runs, and whether it leads. Deposed: it led, and has not noticed that it does not.
	Up, Leads, Deposed bool
	// Parked are the writes that wait for their fate, in the order in which they were made.
	Parked []*Write
	// Unread is how many of the next reads past the cache fail.
	Unread int
	// Pauses is how many of its next reconciles of nodes park before they read evidence. Amid is whether these go on while
	// other rules are being put in force.
	Pauses int
	Amid   bool
	// Slow is how long its next list of leases takes.
	Slow time.Duration
	// Told are the events that it has emitted since a task went on last.
	Told []model.Event
	// Reads is what becomes of its reads of another controller's rules.
	Reads Reads
	// World is what surrounds the process.
	World *World

	former  map[api.Kind]int64 // the version of which the former process knew
	oldest  int64              // the version of the cache that answers first lists of any age; 0: the present one
	process int                // counts the processes of all replicas
	started time.Time
	heard   *ears
	server  *api.Server

	operator    *operator.Replica
	others      *others // nil where there is no other controller
	rules       *admissionrules.Writer
	stores      map[api.Kind]*store
	evidence    map[string]*following
	watches     map[api.Kind][]*store // with those of evidence
	minimum     map[api.Kind]int64    // the version of the own last write
	controllers []*controller
	background  []func()
	timers      []timer
	unreadAt    time.Time // when a read past the cache failed
	begun       bool
	current     *task
	tasks       map[*task]bool
	idle        []*coroutine
	cancel      context.CancelFunc
	ctx         context.Context
}

// World is what surrounds the replicas.
type World struct {
	Server *api.Server
	// Now is the time.
	Now func() time.Time
	// Forbidden is whether pods cannot be listed or watched.
	Forbidden func() bool
	// Watches is told of each watch of pods, and of reads and writes of pods and NodeClaims that would start one.
	Watches func(kind api.Kind, namespace, labels string)
	// Met is told of each fault that changed what happened, but those of writes.
	Met func(fault, kind string)
	// Webhooks is whether the webhooks are installed; Policy is whether the policy that taints nodes is.
	Webhooks, Policy bool
	// Unguarded is whether no policy protects records.
	Unguarded bool
	// Endpoints is whether the policy that keeps endpoints is installed.
	Endpoints bool
	// Leases are those of nodes. A read of them takes a time.
	Leases func(takes time.Duration) []coordinationv1.Lease
	// Others is the API of another controller; nil where there is none.
	Others *Others
	// Moving is whether the rules are moved to another API group: no process starts.
	Moving bool
	// holder is the process that took the lease of the operator last.
	holder int
}

// timer is a function that runs later.
type timer struct {
	at time.Time
	f  func()
}

// controller is a reconciler with its queue.
type controller struct {
	name       string
	reconciler reconcile.Reconciler
	queue      *queue
	source     *queued
}

// task is a Reconcile under way.
type task struct {
	controller *controller
	request    reconcile.Request
	runs       *coroutine
	looked     *model.View     // what it was shown before it read evidence, if it has paused
	unlisted   map[string]bool // the pods that it could not list, as watches name them
}

// coroutine runs one task after the other.
type coroutine struct {
	task  *task
	next  func() (*Write, bool)
	stop  func()
	yield func(*Write) bool
}

// killed ends a coroutine whose process is killed.
type killed struct{}

func init() {
	ctrl.SetLogger(logr.Discard())
	utilruntime.PanicHandlers = nil // a process may be killed while it tries again
	taints.MaxAnnotations = api.MaxAnnotations
}

// New is a replica that is down.
func New(number int, w *World) *Replica {
	return &Replica{process: number, World: w, server: w.Server}
}

// serverClock is the API server's clock, by which all replicas go.
type serverClock func() time.Time

func (now serverClock) Now() time.Time                  { return now() }
func (now serverClock) Since(t time.Time) time.Duration { return now().Sub(t) }

// StartBehind starts the process. The cache of the API server that answers its first lists is so many versions behind.
func (r *Replica) StartBehind(versions int) {
	_, now := r.server.List(api.CRDs)
	r.oldest = max(1, now-int64(versions))
	r.Start()
}

// Start starts the process. It ends at once where rules are not served, or are being moved.
func (r *Replica) Start() {
	if !r.server.Serves() || r.World.Moving {
		return
	}
	r.Up, r.started = true, r.World.Now()
	r.process, r.heard = r.process+2, &ears{rules: map[string]model.Document{},
		claims: map[string]model.Document{}, edited: map[string]bool{},
		pruned: map[string]bool{}, left: map[string]bool{}, looked: map[string]model.Document{},
		seen:     map[types.UID]*v1alpha1.NodeReadinessRule{},
		versions: map[string][]model.Document{}, stopped: map[string][]model.Document{}}
	r.stores, r.watches = map[api.Kind]*store{}, map[api.Kind][]*store{}
	for _, k := range []api.Kind{api.Nodes, api.Rules, api.AdmissionRules, api.CRDs} {
		r.stores[k] = r.newStore(k, nil)
		r.watches[k] = []*store{r.stores[k]}
	}
	r.evidence, r.minimum, r.tasks = map[string]*following{}, map[api.Kind]int64{}, map[*task]bool{}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	cached := informers{replica: r}
	engine, options := nodeadmission.EngineNone, &operator.Options{Namespace: "nodegate-system",
		UnprotectedRecords: r.World.Unguarded, Lease: r.lease()}
	if r.World.Webhooks {
		engine, options.Webhooks = nodeadmission.EngineWebhook, &operator.WebhookOptions{GuardUsers: guard.DefaultUsers(),
			Name: "nodegate-webhook"}
	}
	if r.World.Policy { // as with --node-admission=auto
		engine = nodeadmission.EnginePolicy
	}
	r.rules = &admissionrules.Writer{Client: instant{reader: live{r}, replica: r}}
	var err error
	r.operator, err = operator.New(r.ctx, &operator.Environment{
		Cache: cached, Client: writer{reader: cached, replica: r},
		Live: writer{reader: live{r}, replica: r, direct: true}, Informers: followers{r},
		Recorder: recorder{r}, Clock: serverClock(r.World.Now), After: r.after,
		Admission: func() nodeadmission.Kind { return engine }, AdmissionRules: r.rules,
	}, options)
	utilruntime.Must(err)
	r.readOthers()
	r.pausable(r.operator.Nodes)
	r.operator.Admission.Changed = func(bool) { r.rules.Wake() }
	r.stores[api.AdmissionRules].subscribe(r.operator.Admission.Handler())
}

// after runs a function when a time has passed.
func (r *Replica) after(d time.Duration, f func()) {
	if d > 0 {
		r.timers = append(r.timers, timer{r.World.Now().Add(d), f})
		return
	}
	r.background = append(r.background, f)
}

// Review asks a webhook of the process; nil without an answer.
func (r *Replica) Review(path string, request admissionv1.AdmissionRequest) *admission.Response {
	if !r.Up {
		return nil
	}
	for _, h := range r.operator.Webhooks {
		if h.Path() == path {
			response := h.Handle(r.ctx, admission.Request{AdmissionRequest: request})
			return &response
		}
	}
	panic("no webhook is served at " + path)
}

// Kill ends the process at once. Requests that it has sent are lost or under way, as the caller says before.
func (r *Replica) Kill() {
	if !r.Up {
		return
	}
	r.cancel()
	for t := range r.tasks {
		t.runs.stop()
	}
	for _, c := range r.idle {
		c.stop()
	}
	former := map[api.Kind]int64{}
	for _, k := range api.Kinds {
		for _, s := range r.watches[k] {
			former[k] = max(former[k], s.at)
		}
	}
	*r = Replica{process: r.process, World: r.World, server: r.server, former: former, Reads: r.Reads}
}

// Lead makes the process the leader: its controllers start.
func (r *Replica) Lead() {
	r.Leads, r.World.holder = true, r.process
	nodes := &controller{name: "node", reconciler: r.operator.Nodes, queue: newQueue(r.World.Now)}
	nodes.queue.limiter = r.operator.Nodes.RateLimiter()
	rules := &controller{name: "rule", reconciler: r.operator.Status, queue: newQueue(r.World.Now)}
	r.controllers = []*controller{nodes, rules}
	utilruntime.Must(r.operator.NodeRules.Start(r.ctx, nodes.queue))
	utilruntime.Must(r.operator.StatusQueue.Start(r.ctx, rules.queue))
	nodes.source = r.stores[api.Nodes].subscribe(enqueue(nodes.queue, r.operator.Nodes.Relevant()))
	nodes.source.listens = r.heard.note
	rules.source = r.stores[api.Rules].subscribe(enqueue[*v1alpha1.NodeReadinessRule](rules.queue))
	if r.operator.Evictions != nil {
		evictions := &controller{name: "eviction", reconciler: r.operator.Evictions, queue: newQueue(r.World.Now)}
		evictions.source = r.stores[api.Nodes].subscribe(enqueue(evictions.queue, eviction.Relevant()))
		r.controllers = append(r.controllers, evictions)
	}
	r.keepEndpoints()
	r.progress()
}

// progress lets the controllers begin once nodes and rules are synced.
func (r *Replica) progress() {
	if r.Leads && !r.begun && r.stores[api.Nodes].listed && r.operator.Rules.HasSynced() {
		r.begun = true
		r.look()
		r.operator.NodeRules.Begin()
		utilruntime.Must(r.operator.Monitor.Look(r.ctx))
	}
}

// caughtUp is the store of a kind, which has seen this process's own writes.
func (r *Replica) caughtUp(k api.Kind) *store {
	s := r.stores[k]
	for s.at < r.minimum[k] && s.behind(r.server) {
		s.pull(r.server, -1)
	}
	return s
}

func (r *Replica) wrote(k api.Kind, version int64) {
	if r.minimum != nil {
		r.minimum[k] = max(r.minimum[k], version)
	}
}

// gather notes which watches of a kind of evidence there are, in the order of their keys.
func (r *Replica) gather(k api.Kind) {
	r.watches[k] = nil
	for _, key := range slices.Sorted(maps.Keys(r.evidence)) {
		if f := r.evidence[key]; f.kind == k {
			r.watches[k] = append(r.watches[k], f.store)
		}
	}
}

// Deliver brings up to n events of a kind into its store.
func (r *Replica) Deliver(k api.Kind, n int) {
	for _, s := range r.watches[k] {
		if s.follows != nil && s.stale() && r.World.Forbidden() {
			s.follows.fail(string(k) + " is forbidden")
			continue
		}
		s.pull(r.server, n)
		if s.follows != nil {
			s.follows.fail("")
		}
	}
	if r.Up {
		r.progress()
	}
}

// Cut cuts the watches of a kind: they list again, or resume, and bring nothing until then.
func (r *Replica) Cut(k api.Kind, resume bool) {
	for _, s := range r.watches[k] {
		if s.listed && r.server.Newer(k, s.at) {
			r.World.Met(map[bool]string{true: "a watch is cut while events wait, and resumes",
				false: "a watch is cut while events wait, and lists again"}[resume], string(k))
		}
		s.cut, s.resumes = s.cut || !resume, resume
	}
}

// Notify tells the k-th handler of a kind of up to n events, or runs what runs in the background.
func (r *Replica) Notify(k api.Kind, handler, n int) {
	var all []*queued
	for _, s := range r.watches[k] {
		all = append(all, s.handlers...)
	}
	if len(all) == 0 {
		return
	}
	q := all[handler%len(all)]
	for ; n != 0 && len(q.pending) > 0; n-- {
		q.hear()
	}
	r.progress()
}

// NotifyAll tells all handlers of a kind of everything that is pending.
func (r *Replica) NotifyAll(k api.Kind) {
	for _, s := range r.watches[k] {
		for i := 0; i < len(s.handlers); i++ {
			for q := s.handlers[i]; len(q.pending) > 0; {
				q.hear()
			}
		}
	}
	if r.Up {
		r.progress()
	}
}

// Background runs what was left to run in the background, and what was to run by now.
func (r *Replica) Background() {
	r.others.goOn()
	r.timers = slices.DeleteFunc(r.timers, func(t timer) bool {
		if t.at.After(r.World.Now()) {
			return false
		}
		r.background = append(r.background, t.f)
		return true
	})
	for len(r.background) > 0 {
		f := r.background[0]
		r.background = r.background[1:]
		f()
	}
	r.writeRules()
}

// writeRules lets the leader write the rules for admission, if there is a reason.
func (r *Replica) writeRules() {
	if !r.Leads || r.Deposed {
		return
	}
	select {
	case <-r.rules.Woken():
		if err := r.rules.Write(r.ctx); err != nil {
			r.after(time.Second, r.rules.Wake)
		}
	default:
	}
}

// recorder keeps the events that a process emits until a task goes on.
type recorder struct{ replica *Replica }

func (r recorder) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	if o, ok := about.(metav1.Object); ok {
		r.replica.Told = append(r.replica.Told, model.Event{Name: o.GetName(), Reason: reason,
			Note: fmt.Sprintf(note, args...)})
	}
}

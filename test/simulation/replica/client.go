// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/model"
)

// Fate is what becomes of a write.
type Fate string

// The fates. A write that is applied without an answer ends with an error that does not say so.
const (
	Through  Fate = "answered"
	Lost     Fate = "applied, but the answer is lost"
	Never    Fate = "lost on its way"
	Twice    Fate = "applied twice"
	Refused  Fate = "refused with 409"
	Throttle Fate = "refused with 429"
	Broken   Fate = "refused with 500"
	Spoilt   Fate = "applied, and answered with 500"
	Killed   Fate = "applied, and the process is killed"
	Dead     Fate = "lost, and the process is killed"
	Late     Fate = "under way, and the process is killed"
)

// kills are the fates that end the process.
var kills = map[Fate]bool{Killed: true, Dead: true, Late: true}

// Write is a request of a replica that waits for its fate.
type Write struct {
	api.Request
	Replica *Replica
	// View is what the replica was shown when it made the write.
	View *model.View
	// Sent is when it was made.
	Sent   time.Time
	task   *task
	object *api.Object
	err    error
}

// Key is the key of the object that is written.
func (w *Write) Key() string {
	return toolscache.NewObjectName(w.Namespace, w.Name).String()
}

// writer is the client of a replica: it reads from the cache, and parks at each write. The operator applies no object
// that the simulation has.
type writer struct {
	client.Client
	reader  client.Reader
	replica *Replica
	direct  bool // past the cache
	sub     string
}

func (w writer) Get(ctx context.Context, key client.ObjectKey, out client.Object, o ...client.GetOption) error {
	return w.reader.Get(ctx, key, out, o...)
}

func (w writer) List(ctx context.Context, out client.ObjectList, o ...client.ListOption) error {
	return w.reader.List(ctx, out, o...)
}

func (w writer) Status() client.SubResourceWriter {
	w.sub = "status"
	return status{writer: w}
}

func (w writer) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	body, err := patch.Data(obj)
	if err != nil {
		return fmt.Errorf("making a patch: %w", err)
	}
	return w.do(api.Request{Verb: "patch", Patch: patch.Type(), Body: body}, obj)
}

func (w writer) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return w.whole("create", obj)
}

func (w writer) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return w.whole("update", obj)
}

func (w writer) whole(verb string, obj client.Object) error {
	if rule, ok := obj.(*v1alpha1.NodeReadinessRule); ok && w.sub == "status" { // the server leaves the rest as it is
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.NodeReadinessRule{
			TypeMeta: rule.TypeMeta, ObjectMeta: rule.ObjectMeta, Status: rule.Status})
		if err != nil {
			return fmt.Errorf("encoding a status: %w", err)
		}
		return w.do(api.Request{Verb: verb, Tree: tree}, obj)
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encoding an object: %w", err)
	}
	return w.do(api.Request{Verb: verb, Body: body}, obj)
}

func (w writer) Delete(_ context.Context, obj client.Object, options ...client.DeleteOption) error {
	o := client.DeleteOptions{}
	o.ApplyOptions(options)
	r := api.Request{Verb: "delete", Grace: o.GracePeriodSeconds}
	if p := o.Preconditions; p != nil {
		r.UID, r.Version = ptr.Deref(p.UID, ""), ptr.Deref(p.ResourceVersion, "")
	}
	return w.do(r, obj)
}

// instant is a client whose writes are carried out at once: they are made outside of reconcilers.
type instant struct {
	client.Client
	reader  live
	replica *Replica
}

func (i instant) Get(ctx context.Context, key client.ObjectKey, out client.Object, o ...client.GetOption) error {
	return i.reader.Get(ctx, key, out, o...)
}

func (i instant) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return i.do("create", obj)
}

func (i instant) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return i.do("update", obj)
}

func (i instant) do(verb string, obj client.Object) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encoding an object: %w", err)
	}
	_, err = i.replica.server.Do(api.Request{User: "operator", Verb: verb, Kind: kindOf(obj), Name: obj.GetName(),
		Body: body})
	return err
}

// status writes the subresource.
type status struct {
	client.SubResourceWriter
	writer writer
}

func (s status) Update(ctx context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.writer.Update(ctx, obj)
}

func (s status) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	_ ...client.SubResourcePatchOption) error {
	return s.writer.Patch(ctx, obj, patch)
}

// do parks until the write has met its fate.
func (w writer) do(r api.Request, obj client.Object) error {
	r.User, r.Sub, r.Kind, r.Namespace, r.Name = "operator", w.sub, kindOf(obj), obj.GetNamespace(), obj.GetName()
	if !w.direct {
		w.replica.cached(r.Kind)
	}
	t := w.replica.current
	if t == nil {
		panic("a write outside of a reconciler: " + r.Name)
	}
	write := &Write{Request: r, Replica: w.replica, Sent: w.replica.World.Now(), task: t}
	rule, ok := obj.(*v1alpha1.NodeReadinessRule)
	if r.Kind != api.Rules && r.Kind != api.KeptEndpoints || r.Verb == "patch" && r.Kind == api.Rules ||
		ok && rule.Status.Replacements != nil {
		write.View = w.replica.shown(t)
	}
	if !t.runs.yield(write) {
		panic(killed{})
	}
	if write.err != nil {
		return write.err
	}
	if write.object != nil && r.Verb != "delete" {
		from := typed(write.object).DeepCopyObject()
		reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(from).Elem())
	}
	return nil
}

// Meet carries a parked write out as its fate says, and lets its reconciler go on.
func (w *Write) Meet(fate Fate, do func(api.Request) (*api.Object, error)) {
	apply := func() {
		w.object, w.err = do(w.Request)
		if w.err == nil && w.object != nil {
			w.Replica.wrote(w.Kind, w.object.Version)
		}
	}
	resource := w.Kind.Resource()
	if w.Verb == Read && !kills[fate] {
		w.Replica.resume(w.task)
		return
	}
	switch fate {
	case Lost:
		apply()
		w.object, w.err = nil, fmt.Errorf("reading the answer: %w", context.DeadlineExceeded)
	case Never:
		w.err = fmt.Errorf("sending the request: %w", context.DeadlineExceeded)
	case Twice:
		apply()
		apply()
	case Refused:
		w.err = apierrors.NewConflict(resource, w.Name, fmt.Errorf("the object has been modified"))
	case Throttle:
		w.err = apierrors.NewTooManyRequests("busy", 1)
	case Broken:
		w.err = apierrors.NewInternalError(fmt.Errorf("etcd has no leader"))
	case Spoilt:
		apply()
		w.object, w.err = nil, apierrors.NewInternalError(fmt.Errorf("etcdserver: request timed out"))
	case Killed, Dead, Late:
		if fate == Killed && w.Verb != Read {
			apply()
		}
		w.Replica.Kill()
		return
	default:
		apply()
	}
	w.Replica.resume(w.task)
}

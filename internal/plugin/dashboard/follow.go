// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/watch"
)

// connection tells how well the cluster can be read.
type connection struct {
	changed func()

	mu     sync.Mutex
	read   map[string]bool   // what was listed at least once
	polled map[string]bool   // what may be listed, but not watched
	denied map[string]string // what cannot be listed, and why
	lost   time.Time         // since when requests fail; zero if they do not
	why    string
}

// evidenceName is what all evidence is called. Why it cannot be read is told for each rule, see fleetView.
const evidenceName = "evidence"

func newConnection(changed func()) *connection {
	return &connection{changed: changed, read: map[string]bool{}, polled: map[string]bool{}, denied: map[string]string{}}
}

// note notes the result of a request.
func (c *connection) note(what string, err error, polled bool) {
	c.mu.Lock()
	before := len(c.polled) + len(c.denied)
	lost := c.lost
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) ||
		meta.IsNoMatchError(err):
		if what != evidenceName && c.denied[what] == "" {
			c.denied[what] = input.Explain(err, "listing "+what).Error()
			if c.read[what] {
				c.denied[what] += ". What is shown of them is from " + time.Now().Format(time.TimeOnly) + "."
			}
		}
		c.lost = time.Time{}
	case err != nil && !apierrors.IsResourceExpired(err):
		c.why = err.Error()
		if c.lost.IsZero() {
			c.lost = time.Now()
		}
	default:
		delete(c.denied, what)
		c.read[what] = true
		c.lost = time.Time{}
	}
	if polled {
		c.polled[what] = true
	}
	differs := before != len(c.polled)+len(c.denied) || lost != c.lost
	c.mu.Unlock()
	if differs {
		c.changed()
	}
}

// watched notes that a watch is open.
func (c *connection) watched(what string) {
	c.mu.Lock()
	polled := c.polled[what]
	delete(c.polled, what)
	c.mu.Unlock()
	if polled {
		c.changed()
	}
}

// pollEvery is how often objects are listed that may not be watched.
const pollEvery = 10 * time.Second

// wrap notes the results of all requests. Where watch is forbidden, it lists every ten seconds: the reflector gets a
// watch that ends after that time, and lists again.
func (c *connection) wrap(what string, inner *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := inner.ListWithContext(ctx, o)
			if ctx.Err() == nil {
				c.note(what, err, false)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			watching, err := inner.WatchWithContext(ctx, o)
			switch {
			case ctx.Err() != nil:
			case err == nil:
				c.watched(what)
				c.note(what, nil, false)
			case o.SendInitialEvents != nil && apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
				// The API server has answered: the reflector lists after this.
			case apierrors.IsForbidden(err):
				c.note(what, nil, true)
				return pauseFor(ctx), nil
			default:
				c.note(what, err, false)
			}
			return watching, err
		},
	}
}

// pauseFor returns a watch in which nothing happens, and that is then expired.
func pauseFor(ctx context.Context) apiwatch.Interface {
	events := make(chan apiwatch.Event, 1)
	out := apiwatch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		select {
		case <-ctx.Done():
		case <-out.StopChan():
		case <-time.After(pollEvery):
			expired := apierrors.NewResourceExpired("it is listed again").Status()
			events <- apiwatch.Event{Type: apiwatch.Error, Object: &expired}
		}
	}()
	return out
}

// store hands the objects of a reflector on.
type store struct {
	strip  func(client.Object)
	put    func(client.Object)
	remove func(name string)
	all    func(names []string) // all that exist, after they were put
}

// Transformer implements cache.TransformingStore, so that the first list is never in memory as a whole.
func (s *store) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if object, ok := o.(client.Object); ok {
			s.strip(object)
		}
		return o, nil
	}
}

func (s *store) Add(o any) error { return s.Update(o) }

func (s *store) Update(o any) error {
	if object, ok := o.(client.Object); ok {
		s.strip(object)
		s.put(object)
	}
	return nil
}

func (s *store) Delete(o any) error {
	if object, ok := o.(client.Object); ok {
		s.remove(object.GetName())
	}
	return nil
}

func (s *store) Replace(list []any, _ string) error {
	var names []string
	for _, o := range list {
		if object, ok := o.(client.Object); ok {
			s.strip(object)
			s.put(object)
			names = append(names, object.GetName())
		}
	}
	s.all(names)
	return nil
}

func (s *store) Resync() error { return nil }

// follow lists and watches objects of a kind until the context ends.
func (c *connection) follow(ctx context.Context, api client.WithWatch, what string, empty client.Object,
	list func() client.ObjectList, s *store) {
	lw := c.wrap(what, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			out := list()
			return out, api.List(ctx, out, &client.ListOptions{Raw: &o, Limit: o.Limit, Continue: o.Continue})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return api.Watch(ctx, list(), &client.ListOptions{Raw: &o})
		},
	})
	cache.NewReflectorWithOptions(watch.Patient(lw), empty, s, cache.ReflectorOptions{Name: what}).RunWithContext(ctx)
}

// stripNode drops what is large and decides nothing. It keeps the managed fields of an override or maintenance, because
// only they tell how old it is.
func stripNode(o client.Object) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return
	}
	_, override := node.Annotations[v1alpha1.OverrideAnnotation]
	_, maintenance := node.Annotations[v1alpha1.MaintenanceAnnotation]
	if !override && !maintenance {
		node.ManagedFields = nil
	}
	node.Status.Images, node.Status.VolumesAttached, node.Status.VolumesInUse = nil, nil, nil
}

func stripRule(o client.Object) { o.SetManagedFields(nil) }

// annotatedAt returns when an annotation was written last, as far as the managed fields tell: at the last write of its
// manager that changed something.
func annotatedAt(node *corev1.Node, annotation string) int64 {
	i := slices.IndexFunc(node.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.FieldsV1 != nil && m.Time != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte("f:"+annotation))
	})
	if i < 0 {
		return 0
	}
	return seconds(node.ManagedFields[i].Time.Time)
}

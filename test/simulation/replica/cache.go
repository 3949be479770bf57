// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/controller/node"
	"github.com/nodegate/nodegate/test/simulation/api"
)

// typed is an object as a client reads it. It is shared by all readers, and must not be changed.
func typed(o *api.Object) client.Object {
	return o.Memo("typed", func() any {
		var out client.Object
		switch o.Kind {
		case api.Rules:
			rule := &v1alpha1.NodeReadinessRule{}
			rule.Spec = *o.Shared("typed spec", func() any {
				var of struct {
					Spec v1alpha1.NodeReadinessRuleSpec
				}
				o.Into(&of)
				return &of.Spec
			}).(*v1alpha1.NodeReadinessRuleSpec)
			o.IntoBut(rule, "spec")
			return rule
		case api.AdmissionRules:
			out = &admissionv1alpha1.AdmissionRules{}
		case api.KeptEndpoints:
			out = &endpointsv1alpha1.KeptEndpoints{}
		default:
			return o.Meta.(client.Object)
		}
		o.Into(out)
		return out
	}).(client.Object)
}

// stripped is an object as the cache keeps it.
func stripped(o *api.Object) client.Object {
	if o.Kind != api.Nodes {
		return typed(o)
	}
	return o.Memo("stripped", func() any {
		out, err := node.Strip(typed(o).DeepCopyObject())
		utilruntime.Must(err)
		return out
	}).(client.Object)
}

// kindOf is the kind that an object or a list of a client is about.
func kindOf(obj any) api.Kind {
	switch o := obj.(type) {
	case *corev1.Node, *corev1.NodeList:
		return api.Nodes
	case *corev1.Pod, *corev1.PodList:
		return api.Pods
	case *v1alpha1.NodeReadinessRule, *v1alpha1.NodeReadinessRuleList:
		return api.Rules
	case *admissionv1alpha1.AdmissionRules:
		return api.AdmissionRules
	case *appsv1.DaemonSetList:
		return api.DaemonSets
	case *endpointsv1alpha1.KeptEndpoints:
		return api.KeptEndpoints
	case *apiextensionsv1.CustomResourceDefinition:
		return api.CRDs
	case schema.ObjectKind:
		if strings.HasPrefix(o.GroupVersionKind().Kind, "NodeClaim") {
			return api.NodeClaims
		}
	}
	panic(fmt.Sprintf("the simulation does not serve %T", obj))
}

// informer is a store as controller-runtime has it.
type informer struct {
	cache.Informer
	store   *store
	replica *Replica
}

func (i informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration,
	error) {
	q := i.store.subscribe(h)
	q.listens = i.replica.heard.note
	return q, nil
}

func (i informer) HasSynced() bool { return i.store.listed }

// informers is the cache of a process.
type informers struct {
	cache.Cache
	replica *Replica
}

func (c informers) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer,
	error) {
	return informer{store: c.replica.stores[kindOf(obj)], replica: c.replica}, nil
}

func (c informers) WaitForCacheSync(context.Context) bool { return true }

// Get reads from the store. A write of this process is waited for.
func (c informers) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	s := c.replica.caughtUp(c.replica.cached(kindOf(out)))
	return found(s.kind, s.objects[toolscache.NamespacedNameAsObjectName(key).String()], key, out, stripped)
}

func (c informers) List(_ context.Context, out client.ObjectList, options ...client.ListOption) error {
	s := c.replica.caughtUp(c.replica.cached(kindOf(out)))
	objects := make([]*api.Object, 0, len(s.objects))
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		objects = append(objects, s.objects[name])
	}
	return list(objects, out, stripped, options)
}

// cached notes that a kind is read from the cache, or written by its client: that starts a watch of the whole kind.
func (r *Replica) cached(kind api.Kind) api.Kind {
	if kind != api.Pods && kind != api.NodeClaims {
		return kind
	}
	r.World.Watches(kind, "", "")
	r.stores[kind] = r.newStore(kind, nil)
	if kind == api.NodeClaims {
		r.watches[kind] = []*store{r.stores[kind]}
	}
	return kind
}

// live reads past the cache.
type live struct{ replica *Replica }

func (l live) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	if around, err := l.around(out); around {
		return err
	}
	kind := kindOf(out)
	if err := l.replica.unread(kind); err != nil {
		return err
	}
	object := l.replica.server.Get(kind, toolscache.NamespacedNameAsObjectName(key).String())
	l.replica.claimed(object)
	return found(kind, object, key, out, typed)
}

func (l live) List(_ context.Context, out client.ObjectList, options ...client.ListOption) error {
	if leases, ok := out.(*coordinationv1.LeaseList); ok {
		return l.leases(leases)
	}
	kind := kindOf(out)
	err := l.replica.unread(kind)
	if l.replica.current != nil && kind == api.Pods {
		l.replica.current.lists(options, err == nil)
	}
	if err != nil {
		return err
	}
	objects, _ := l.replica.server.List(kind)
	for _, o := range objects {
		if kind == api.Rules && l.replica.current == nil && l.replica.heard.rules[o.Key()] != nil { // after a foreign CRD
			l.replica.heard.rule(o)
		}
		l.replica.claimed(o)
	}
	return list(objects, out, typed, options)
}

// unread lets a live read fail, if it is to.
func (r *Replica) unread(k api.Kind) error {
	if k == api.Rules && !r.server.Serves() {
		return apierrors.NewNotFound(k.Resource(), "")
	}
	if r.Unread == 0 {
		return nil
	}
	r.Unread--
	r.unreadAt = r.World.Now()
	r.World.Met("a live read fails", string(k))
	if k == api.KeptEndpoints && r.Unread%2 == 0 { // as where its policy is not installed
		return apierrors.NewForbidden(k.Resource(), "", fmt.Errorf("the API server has just started"))
	}
	return apierrors.NewInternalError(fmt.Errorf("etcd has no leader"))
}

// claimed notes a NodeClaim that was read.
func (r *Replica) claimed(o *api.Object) {
	if o != nil && o.Kind == api.NodeClaims {
		r.heard.claims[o.Key()] = o
	}
}

func found(kind api.Kind, o *api.Object, key client.ObjectKey, out client.Object,
	read func(*api.Object) client.Object) error {
	if o == nil {
		return apierrors.NewNotFound(kind.Resource(), key.Name)
	}
	from := read(o)
	if kind != api.Nodes { // cached nodes are not copied
		from = from.DeepCopyObject().(client.Object)
	}
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(from).Elem())
	return nil
}

func list(objects []*api.Object, out client.ObjectList, read func(*api.Object) client.Object,
	options []client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(options)
	items := make([]runtime.Object, 0, len(objects))
	for _, object := range objects {
		from := read(object)
		if pod, ok := from.(*corev1.Pod); ok && o.FieldSelector != nil && !o.FieldSelector.Matches(podFields(pod)) {
			continue
		}
		if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(from.GetLabels())) {
			continue
		}
		items = append(items, from)
	}
	return meta.SetList(out, items)
}

func podFields(pod *corev1.Pod) fields.Set {
	return fields.Set{"spec.nodeName": pod.Spec.NodeName, "status.phase": string(pod.Status.Phase),
		"metadata.name": pod.Name}
}

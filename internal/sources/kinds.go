// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// key identifies a watch. Only some kinds have a namespace, and only pods have a selector of labels.
type key struct{ kind, namespace, labels string }

// Kinds of watches.
const (
	csiNodes       = "csinodes"
	resourceSlices = "resourceslices"
	daemonSets     = "daemonsets"
	daemonPods     = "daemonpods"
	selectedPods   = "pods"
)

// nodeFields are the fields by which the objects of a node are selected, where the API server knows one.
var nodeFields = map[string]string{csiNodes: metav1.ObjectNameField, resourceSlices: onNode, daemonPods: onNode,
	selectedPods: onNode}

// noNode is the node of DaemonSets in the index: they belong to no certain node.
const noNode = ""

// podsKey returns the key of the watch for a requirement of pods.
func podsKey(p *evidence.Pods) key {
	return key{kind: selectedPods, namespace: p.Namespace, labels: p.Labels.String()}
}

// keysOf returns the keys of the watches that a requirement needs.
func keysOf(r *evidence.Requirement) []key {
	switch k := r.Kind.(type) {
	case *evidence.Pods:
		return []key{podsKey(k)}
	case *evidence.DaemonSets:
		keys := make([]key, 0, 2*len(k.Namespaces))
		for _, namespace := range k.Namespaces {
			keys = append(keys, key{kind: daemonSets, namespace: string(namespace)},
				key{kind: daemonPods, namespace: string(namespace)})
		}
		return keys
	case *evidence.CSIDriver:
		return []key{{kind: csiNodes}}
	case *evidence.Devices:
		return []key{{kind: resourceSlices}}
	}
	return nil
}

// watchOf returns the watch of a key, without its functions.
func watchOf(k key) *Watch {
	w := &Watch{Namespace: k.namespace}
	switch k.kind {
	case csiNodes:
		w.Object, w.Strip = &storagev1.CSINode{}, ctrlcache.TransformStripManagedFields()
	case resourceSlices:
		w.Object, w.Strip = &resourcev1.ResourceSlice{}, transform(stripSlice)
	case daemonSets:
		w.Object, w.Strip = &appsv1.DaemonSet{}, transform(compileDaemonSet)
	case daemonPods:
		w.Object, w.Strip, w.OfDaemonSets = &corev1.Pod{}, transform(stripDaemonPod), true
		w.Options.FieldSelector = NotEnded.String()
	case selectedPods:
		w.Object, w.Strip = &corev1.Pod{}, transform(stripPod)
		w.Options.LabelSelector, w.Options.FieldSelector = k.labels, NotEnded.String()
	}
	return w
}

// listWatch lists and watches what a watch describes.
func (c ClientInformers) listWatch(w *Watch) *cache.ListWatch {
	switch w.Object.(type) {
	case *corev1.Pod:
		pods := c.Clients.CoreV1().Pods(w.Namespace)
		return listWatch(pods.List, pods.Watch, &w.Options)
	case *appsv1.DaemonSet:
		sets := c.Clients.AppsV1().DaemonSets(w.Namespace)
		return listWatch(sets.List, sets.Watch, &w.Options)
	case *storagev1.CSINode:
		nodes := c.Clients.StorageV1().CSINodes()
		return listWatch(nodes.List, nodes.Watch, &w.Options)
	case *resourcev1.ResourceSlice:
		slices := c.Clients.ResourceV1().ResourceSlices()
		return listWatch(slices.List, slices.Watch, &w.Options)
	}
	panic(fmt.Sprintf("no evidence is read from a %T", w.Object))
}

func listWatch[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error),
	watchAll func(context.Context, metav1.ListOptions) (apiwatch.Interface, error),
	selected *metav1.ListOptions,
) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector, o.FieldSelector = selected.LabelSelector, selected.FieldSelector
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector, o.FieldSelector = selected.LabelSelector, selected.FieldSelector
			return watchAll(ctx, o)
		},
	}
}

// gather fills in the evidence on a node for all rules of a set. objects returns the node's objects of a key, or false
// if the key is not watched.
func gather(
	set *ruleset.Set, e *evidence.Gathered, known map[pool]int64, objects func(key) ([]any, bool),
) {
	for _, rule := range set.All() {
		for i := range rule.Requirements {
			switch k := rule.Requirements[i].Kind.(type) {
			case *evidence.DaemonSets:
				gatherDaemonPods(k, e, objects)
			case *evidence.Pods:
				if found, ok := objects(podsKey(k)); ok {
					if e.Pods == nil {
						e.Pods = map[*evidence.Pods][]*corev1.Pod{}
					}
					e.Pods[k] = only[*corev1.Pod](found)
				}
			}
		}
	}
	if found, ok := objects(key{kind: csiNodes}); ok {
		for _, n := range only[*storagev1.CSINode](found) {
			e.CSINode = n
		}
	}
	if found, ok := objects(key{kind: resourceSlices}); ok {
		e.Devices = devices(only[*resourcev1.ResourceSlice](found), known)
	}
}

func gatherDaemonPods(q *evidence.DaemonSets, e *evidence.Gathered, objects func(key) ([]any, bool)) {
	for _, namespace := range q.Namespaces {
		found, ok := objects(key{kind: daemonPods, namespace: string(namespace)})
		if _, known := e.DaemonPods[string(namespace)]; !ok || known {
			continue
		}
		if e.DaemonPods == nil {
			e.DaemonPods = map[string][]evidence.DaemonPod{}
		}
		e.DaemonPods[string(namespace)] = slices.Concat(only[[]evidence.DaemonPod](found)...)
	}
}

// only returns the objects of a type.
func only[T any](objects []any) []T {
	out := make([]T, 0, len(objects))
	for _, o := range objects {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// NotEnded selects pods that have not ended.
var NotEnded = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
)

// NodesOf returns the nodes that an object belongs to.
func NodesOf(o any) []string {
	switch o := o.(type) {
	case *corev1.Pod:
		return []string{evidence.NodeOf(o)}
	case *slimPod:
		return []string{o.node}
	case *evidence.DaemonSet:
		return []string{noNode}
	case *storagev1.CSINode:
		return []string{o.Name}
	case *resourcev1.ResourceSlice:
		if o.Spec.NodeName != nil {
			return []string{*o.Spec.NodeName}
		}
	}
	return nil
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Snapshot is evidence that was read once and is not watched, for the kubectl plugin.
type Snapshot struct {
	// TransientTaintPrefixes are those of the operator.
	TransientTaintPrefixes []string

	objects map[key]map[string][]any // by key, by node
	failed  map[key]string           // by key: why it could not be read
}

// manyNodes is from how many nodes on one request for all is cheaper than one for each.
const manyNodes = 10

// Read reads the evidence for the rules of a set: that of the named nodes, or of all if none or many are named. Unread
// tells what could not be read.
func Read(ctx context.Context, clients kubernetes.Interface, set *ruleset.Set, nodes ...string) *Snapshot {
	return newSnapshot(set, func(s *Snapshot, k key) error {
		for _, w := range watchesOf(k, nodes) {
			lister := pager.New(ClientInformers{Clients: clients}.listWatch(w).ListWithContext)
			if err := lister.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
				s.add(k, o)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// watchesOf returns the watches of a key for some nodes: a large cluster has too many pods to list them for one node.
func watchesOf(k key, nodes []string) (out []*Watch) {
	field := nodeFields[k.kind]
	if len(nodes) == 0 || len(nodes) >= manyNodes || field == "" {
		return []*Watch{watchOf(k)}
	}
	if k.kind == daemonPods || k.kind == selectedPods {
		nodes = append(slices.Clone(nodes), "") // pods of DaemonSets that are not bound yet
	}
	for _, node := range nodes {
		w := watchOf(k)
		of := fields.OneTermEqualSelector(field, node)
		if w.Options.FieldSelector != "" {
			of = fields.AndSelectors(of, NotEnded)
		}
		w.Options.FieldSelector = of.String()
		out = append(out, w)
	}
	return out
}

// newSnapshot calls a function for each key that the rules of a set need.
func newSnapshot(set *ruleset.Set, fill func(s *Snapshot, k key) error) *Snapshot {
	s := &Snapshot{TransientTaintPrefixes: evidence.DefaultTransientTaintPrefixes,
		objects: map[key]map[string][]any{}, failed: map[key]string{}}
	for k := range neededBy(set) {
		s.objects[k] = map[string][]any{}
		if err := fill(s, k); err != nil {
			delete(s.objects, k)
			s.failed[k] = explain(err)
		}
	}
	return s
}

// add stores an object in the form that a watch of the key has.
func (s *Snapshot) add(k key, object any) {
	switch o := object.(type) {
	case *appsv1.DaemonSet:
		object = evidence.CompileDaemonSet(o)
	case *corev1.Pod:
		if pod, ok := evidence.DaemonPodOf(o); ok && k.kind == daemonPods {
			node := evidence.NodeOf(o)
			s.objects[k][node] = append(s.objects[k][node], []evidence.DaemonPod{pod})
			return
		}
	}
	for _, node := range NodesOf(object) {
		s.objects[k][node] = append(s.objects[k][node], object)
	}
}

// Of returns a snapshot of the objects of a file. If the file has no
// object of a kind, that kind counts as not read.
func Of(objects []runtime.Object, set *ruleset.Set) *Snapshot {
	return newSnapshot(set, func(s *Snapshot, k key) error {
		watch := watchOf(k)
		kind, there := reflect.TypeOf(watch.Object), false
		for _, o := range objects {
			if reflect.TypeOf(o) != kind {
				continue
			}
			there = true
			if watch.selects(o) {
				s.add(k, o)
			}
		}
		if !there {
			return fmt.Errorf("the file has no %ss", kind.Elem().Name())
		}
		return nil
	})
}

// selects reports whether the watch returns an object of its kind.
func (w *Watch) selects(o runtime.Object) bool {
	if pod, ok := o.(*corev1.Pod); ok && ended(pod) {
		return false
	}
	object, err := meta.Accessor(o)
	selector, invalid := labels.Parse(w.Options.LabelSelector)
	return err == nil && invalid == nil && selector.Matches(labels.Set(object.GetLabels())) &&
		(w.Namespace == "" || w.Namespace == object.GetNamespace())
}

// DaemonSets returns the DaemonSets of a namespace.
func (s *Snapshot) DaemonSets(namespace string) []*evidence.DaemonSet {
	return only[*evidence.DaemonSet](s.objects[key{kind: daemonSets, namespace: namespace}][noNode])
}

// Resolve returns the set as it is with the evidence of the snapshot.
func (s *Snapshot) Resolve(set *ruleset.Set) *ruleset.Set {
	return set.Resolve(ruleset.Known{Cluster: evidence.Cluster{DaemonSets: s.DaemonSets,
		TransientTaintPrefixes: s.TransientTaintPrefixes}}, ruleset.NewSet())
}

// Gather fills in the evidence on a node for all rules of a set.
func (s *Snapshot) Gather(set *ruleset.Set, node string, e *evidence.Gathered) {
	gather(set, e, nil, func(k key) ([]any, bool) {
		byNode, ok := s.objects[k]
		return byNode[node], ok
	})
}

// Unread returns why a requirement cannot be evaluated, or "" if it can.
func (s *Snapshot) Unread(r *evidence.Requirement) string {
	for _, k := range keysOf(r) {
		if s.failed[k] != "" {
			return s.failed[k]
		}
	}
	return ""
}

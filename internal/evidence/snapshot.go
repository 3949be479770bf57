// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Snapshot is the evidence of one moment, read once and not watched: for those who look and go.
type Snapshot struct {
	objects map[string]map[string][]any // by key, by node
	failed  map[string]string           // by key: why it could not be read
}

// Read reads what the rules of a set need. What cannot be read is told by Unavailable and Unread.
func Read(ctx context.Context, clients kubernetes.Interface, set *ruleset.Set) *Snapshot {
	s := &Snapshot{objects: map[string]map[string][]any{}, failed: map[string]string{}}
	for _, rule := range set.All() {
		for i := range rule.Requirements {
			r := &rule.Requirements[i]
			key := keyOf(r)
			if key == "" || s.objects[key] != nil || s.failed[key] != "" {
				continue
			}
			s.objects[key] = map[string][]any{}
			if err := read(ctx, clients, key, r.Pods, func(o any) { s.add(key, o) }); err != nil {
				delete(s.objects, key)
				s.failed[key] = explain(err)
			}
		}
	}
	return s
}

func read(ctx context.Context, clients kubernetes.Interface, key string, p *ruleset.Pods, each func(any)) error {
	var list pager.ListPageFunc
	options := metav1.ListOptions{}
	switch {
	case p != nil:
		podsFilter(p)(&options)
		list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return clients.CoreV1().Pods(p.Namespace).List(ctx, o)
		}
	case key == csiNodes:
		list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return clients.StorageV1().CSINodes().List(ctx, o)
		}
	default:
		list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return clients.ResourceV1().ResourceSlices().List(ctx, o)
		}
	}
	return pager.New(list).EachListItem(ctx, options, func(o runtime.Object) error {
		each(o)
		return nil
	})
}

func (s *Snapshot) add(key string, object any) {
	for _, node := range NodesOf(object) {
		s.objects[key][node] = append(s.objects[key][node], object)
	}
}

// Of is what the given objects say: pods, CSINodes and ResourceSlices, as a file has them. A kind of which there is no
// object at all counts as not read.
func Of(objects []runtime.Object, set *ruleset.Set) *Snapshot {
	s := &Snapshot{objects: map[string]map[string][]any{}, failed: map[string]string{}}
	for _, rule := range set.All() {
		for i := range rule.Requirements {
			r := &rule.Requirements[i]
			key := keyOf(r)
			if key == "" || s.objects[key] != nil || s.failed[key] != "" {
				continue
			}
			s.objects[key] = map[string][]any{}
			there := false
			for _, o := range objects {
				of, counts := belongs(o, key, r.Pods)
				there = there || of
				if counts {
					s.add(key, o)
				}
			}
			if !there {
				delete(s.objects, key)
				s.failed[key] = fmt.Sprintf("there are no %s in the file", kindOf(key, r.Pods))
			}
		}
	}
	return s
}

// belongs reports whether an object is of the kind that a key is about, and whether it is among those objects.
func belongs(o runtime.Object, key string, p *ruleset.Pods) (of, counts bool) {
	if p == nil {
		of = kindOf(key, nil) == kindOfObject(o)
		return of, of
	}
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return false, false
	}
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return true, !over && pod.Namespace == p.Namespace && p.Labels.Matches(labels.Set(pod.Labels))
}

// Gather fills in what is known of a node, for all rules of a set.
func (s *Snapshot) Gather(set *ruleset.Set, node string, e *readiness.Evidence) {
	gather(set, e, nil, func(key string) ([]any, bool) {
		byNode, ok := s.objects[key]
		return byNode[node], ok
	})
}

// Unavailable says why a rule cannot be judged by this snapshot; nil, where it can.
func (s *Snapshot) Unavailable(rule *ruleset.Rule) *ruleset.Problem {
	return unavailable(rule, func(key string) (reason, why string) {
		if failure := s.failed[key]; failure != "" {
			return ReasonUnavailable, "cannot be read: " + failure
		}
		return "", ""
	})
}

// Unread says why a requirement cannot be judged by this snapshot; empty, where it can.
func (s *Snapshot) Unread(r *ruleset.Requirement) string { return s.failed[keyOf(r)] }

func kindOf(key string, p *ruleset.Pods) string {
	switch {
	case p != nil:
		return "Pods"
	case key == csiNodes:
		return "CSINodes"
	}
	return "ResourceSlices"
}

func kindOfObject(o runtime.Object) string {
	switch o.(type) {
	case *storagev1.CSINode:
		return kindOf(csiNodes, nil)
	case *resourcev1.ResourceSlice:
		return kindOf(resourceSlices, nil)
	}
	return ""
}

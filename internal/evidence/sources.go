// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Reasons for which a rule is frozen because of its evidence.
const (
	// ReasonPending means that a kind of evidence that the rule needs is just being read for the first time.
	ReasonPending = "EvidencePending"
	// ReasonUnavailable means that it cannot be read.
	ReasonUnavailable = "EvidenceUnavailable"
)

// Listener is told what has changed. Its methods must not block.
type Listener interface {
	// NodesChanged is called with nodes whose evidence has changed.
	NodesChanged(nodes ...string)
	// AvailabilityChanged is called when Unavailable may say something else of some rule.
	AvailabilityChanged()
}

// Sources are the watches for all rules. They are safe for concurrent use.
type Sources struct {
	informers Informers
	listener  Listener

	mu      sync.Mutex
	running map[string]Informer
	devices map[string]map[pool]int64 // by node: the last complete counts
}

// New watches nothing yet.
func New(informers Informers, listener Listener) *Sources {
	return &Sources{informers: informers, listener: listener, running: map[string]Informer{},
		devices: map[string]map[pool]int64{}}
}

// SetRules starts the watches that the rules need. They end with the context at the latest.
func (s *Sources) SetRules(ctx context.Context, set *ruleset.Set) {
	needed := neededBy(set)
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, requirement := range needed {
		if s.running[key] == nil {
			s.running[key] = s.informers.Follow(ctx, s.watchFor(key, requirement))
		}
	}
}

// StopUnused stops the watches that none of the sets needs.
func (s *Sources) StopUnused(sets ...*ruleset.Set) {
	needed := neededBy(sets...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, running := range s.running {
		if needed[key] == nil {
			running.Stop()
			delete(s.running, key)
		}
	}
}

func neededBy(sets ...*ruleset.Set) map[string]*ruleset.Requirement {
	needed := map[string]*ruleset.Requirement{}
	for _, set := range sets {
		for _, rule := range set.All() {
			for i := range rule.Requirements {
				if key := keyOf(&rule.Requirements[i]); key != "" {
					needed[key] = &rule.Requirements[i]
				}
			}
		}
	}
	return needed
}

// watchFor describes the watch that a requirement needs.
func (s *Sources) watchFor(key string, r *ruleset.Requirement) *Watch {
	w := &Watch{Changed: s.changed, StateChanged: s.listener.AvailabilityChanged}
	switch key {
	case csiNodes:
		w.Object, w.Strip = &storagev1.CSINode{}, stripMeta
	case resourceSlices:
		w.Object, w.Strip = &resourcev1.ResourceSlice{}, stripSlice
	default:
		w.Object, w.Strip, w.Namespace = &corev1.Pod{}, stripPod, r.Pods.Namespace
		podsFilter(r.Pods)(&w.Options)
	}
	return w
}

// changed tells the listener of the nodes that objects belong to.
func (s *Sources) changed(objects ...any) {
	var nodes []string
	for _, o := range objects {
		for _, n := range NodesOf(o) {
			if n != "" {
				nodes = append(nodes, n)
			}
		}
	}
	if len(nodes) > 0 {
		s.listener.NodesChanged(nodes...)
	}
}

const (
	csiNodes       = "csinodes"
	resourceSlices = "resourceslices"
)

// podsKey tells watches of pods apart.
func podsKey(p *ruleset.Pods) string { return "pods/" + p.Namespace + "/" + p.Labels.String() }

// keyOf names the watch that a requirement needs; empty where it needs none.
func keyOf(r *ruleset.Requirement) string {
	switch {
	case r.Pods != nil && selectsNothing(r.Pods): // the selector is invalid: as a string, this one selects everything
		return ""
	case r.Pods != nil:
		return podsKey(r.Pods)
	case r.CSIDriver != nil:
		return csiNodes
	case r.Devices != nil:
		return resourceSlices
	}
	return ""
}

func selectsNothing(p *ruleset.Pods) bool {
	_, selectable := p.Labels.Requirements()
	return !selectable
}

// Unavailable says why a rule cannot be judged now: which of its kinds of evidence cannot be read, or not yet. Nil,
// where all can.
func (s *Sources) Unavailable(rule *ruleset.Rule) *ruleset.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return unavailable(rule, func(key string) (reason, why string) {
		running := s.running[key]
		switch {
		case running != nil && running.Failed() != "":
			return ReasonUnavailable, "cannot be read: " + running.Failed()
		case running != nil && running.Synced():
			return "", ""
		}
		return ReasonPending, "has not been read yet"
	})
}

// unavailable is the first of a rule's kinds of evidence that is not there to be judged by, as why says.
func unavailable(rule *ruleset.Rule, why func(key string) (reason, text string)) *ruleset.Problem {
	for i := range rule.Requirements {
		key := keyOf(&rule.Requirements[i])
		if key == "" {
			continue
		}
		if reason, text := why(key); reason != "" {
			return &ruleset.Problem{Field: fmt.Sprintf("spec.requirements[%d]", i), Reason: reason,
				Message: fmt.Sprintf("the evidence of requirement %s %s", rule.Requirements[i].Name, text)}
		}
	}
	return nil
}

// Gather fills in what is known of a node, for all rules of a set.
func (s *Sources) Gather(set *ruleset.Set, node string, e *readiness.Evidence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.devices[node] == nil {
		s.devices[node] = map[pool]int64{}
	}
	defer func() {
		if len(s.devices[node]) == 0 {
			delete(s.devices, node)
		}
	}()
	gather(set, e, s.devices[node], func(key string) ([]any, bool) {
		running := s.running[key]
		if running == nil {
			return nil, false
		}
		return running.ByNode(node), true
	})
}

// gather fills in what the objects of a node say, for all rules of a set. objects gives those of a key; false, where
// that is not watched.
func gather(
	set *ruleset.Set, e *readiness.Evidence, known map[pool]int64, objects func(key string) ([]any, bool),
) {
	if !set.Gathers() {
		return
	}
	for _, rule := range set.All() {
		for i := range rule.Requirements {
			r := &rule.Requirements[i]
			if r.Pods == nil {
				continue
			}
			if found, ok := objects(podsKey(r.Pods)); ok {
				if e.Pods == nil {
					e.Pods = map[*ruleset.Pods][]*corev1.Pod{}
				}
				e.Pods[r.Pods] = only[*corev1.Pod](found)
			}
		}
	}
	if found, ok := objects(csiNodes); ok {
		for _, n := range only[*storagev1.CSINode](found) {
			e.CSINode = n
		}
	}
	if found, ok := objects(resourceSlices); ok {
		e.Devices = devices(only[*resourcev1.ResourceSlice](found), known)
	}
}

// only are the objects of a type.
func only[T any](objects []any) []T {
	out := make([]T, 0, len(objects))
	for _, o := range objects {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// podsFilter makes a list of pods one of those that a requirement is about.
func podsFilter(p *ruleset.Pods) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.LabelSelector = p.Labels.String()
		o.FieldSelector = fields.AndSelectors(
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
		).String()
	}
}

// NodesOf returns the nodes that an object belongs to.
func NodesOf(o any) []string {
	switch o := o.(type) {
	case *corev1.Pod:
		return []string{readiness.NodeOf(o)}
	case *storagev1.CSINode:
		return []string{o.Name}
	case *resourcev1.ResourceSlice:
		if o.Spec.NodeName != nil {
			return []string{*o.Spec.NodeName}
		}
	}
	return nil
}

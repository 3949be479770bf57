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
	"k8s.io/client-go/kubernetes"

	"github.com/nodegate/nodegate/api/v1alpha1"
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
	clients  kubernetes.Interface
	listener Listener

	mu      sync.Mutex
	running map[string]*source
}

// New watches nothing yet.
func New(clients kubernetes.Interface, listener Listener) *Sources {
	return &Sources{clients: clients, listener: listener, running: map[string]*source{}}
}

// SetRules starts the watches that the rules need and are not there yet, and stops those that none needs any more. Those
// that it starts end with the context at the latest.
func (s *Sources) SetRules(ctx context.Context, set *ruleset.Set) {
	needed := map[string]func() *source{}
	for _, rule := range set.All() {
		for i := range rule.Requirements {
			if key, start := s.sourceFor(&rule.Requirements[i]); key != "" {
				needed[key] = start
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, running := range s.running {
		if needed[key] == nil {
			running.stop()
			delete(s.running, key)
		}
	}
	for key, start := range needed {
		if s.running[key] == nil {
			s.running[key] = start()
			s.running[key].run(ctx, s.listener)
		}
	}
}

const (
	csiNodes       = "csinodes"
	resourceSlices = "resourceslices"
)

// podsKey tells watches of pods apart.
func podsKey(p *ruleset.Pods) string { return "pods/" + p.Namespace + "/" + p.Labels.String() }

// sourceFor is the watch that a requirement needs, with its key; empty where it needs none.
func (s *Sources) sourceFor(r *ruleset.Requirement) (key string, start func() *source) {
	switch {
	case r.Pods != nil:
		return podsKey(r.Pods), func() *source { return s.pods(r.Pods) }
	case r.CSIDriver != nil:
		return csiNodes, s.csiNodes
	case r.Resource != nil && r.Resource.Source == v1alpha1.ResourceSourceResourceSlice:
		return resourceSlices, s.resourceSlices
	}
	return "", nil
}

// Unavailable says why a rule cannot be judged now: which of its kinds of evidence cannot be read, or not yet. Nil, where
// all can.
func (s *Sources) Unavailable(rule *ruleset.Rule) *ruleset.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range rule.Requirements {
		key, _ := s.sourceFor(&rule.Requirements[i])
		if key == "" {
			continue
		}
		if running := s.running[key]; running == nil || !running.synced() {
			reason, why := ReasonPending, "has not been read yet"
			if running != nil && running.failure() != "" {
				reason, why = ReasonUnavailable, "cannot be read: "+running.failure()
			}
			return &ruleset.Problem{Field: fmt.Sprintf("spec.requirements[%d]", i), Reason: reason,
				Message: fmt.Sprintf("the evidence of requirement %s %s", rule.Requirements[i].Name, why)}
		}
	}
	return nil
}

// Gather fills in what is known of a node, for all rules of a set.
func (s *Sources) Gather(set *ruleset.Set, node string, e *readiness.Evidence) {
	if !set.Gathers() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rule := range set.All() {
		for i := range rule.Requirements {
			r := &rule.Requirements[i]
			if r.Pods == nil {
				continue
			}
			if running := s.running[podsKey(r.Pods)]; running != nil {
				if e.Pods == nil {
					e.Pods = map[*ruleset.Pods][]*corev1.Pod{}
				}
				e.Pods[r.Pods] = byNode[*corev1.Pod](running, node)
			}
		}
	}
	if running := s.running[csiNodes]; running != nil {
		for _, n := range byNode[*storagev1.CSINode](running, node) {
			e.CSINode = n
		}
	}
	if running := s.running[resourceSlices]; running != nil {
		e.Devices = map[string]int64{}
		for _, slice := range byNode[*resourcev1.ResourceSlice](running, node) {
			e.Devices[slice.Spec.Driver] += int64(len(slice.Spec.Devices))
		}
	}
}

func (s *Sources) pods(p *ruleset.Pods) *source {
	client := s.clients.CoreV1().Pods(p.Namespace)
	filter := func(o *metav1.ListOptions) {
		o.LabelSelector = p.Labels.String()
		o.FieldSelector = fields.AndSelectors(
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
		).String()
	}
	return newSource(&corev1.Pod{}, listWatch(client.List, client.Watch, filter), stripPod, func(o any) []string {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return nil
		}
		return []string{readiness.NodeOf(pod)}
	})
}

func (s *Sources) csiNodes() *source {
	client := s.clients.StorageV1().CSINodes()
	return newSource(&storagev1.CSINode{}, listWatch(client.List, client.Watch, nil), stripMeta, func(o any) []string {
		n, ok := o.(*storagev1.CSINode)
		if !ok {
			return nil
		}
		return []string{n.Name}
	})
}

func (s *Sources) resourceSlices() *source {
	client := s.clients.ResourceV1().ResourceSlices()
	return newSource(&resourcev1.ResourceSlice{}, listWatch(client.List, client.Watch, nil), stripSlice, func(o any) []string {
		slice, ok := o.(*resourcev1.ResourceSlice)
		if !ok || slice.Spec.NodeName == nil {
			return nil
		}
		return []string{*slice.Spec.NodeName}
	})
}

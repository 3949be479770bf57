// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodegate/nodegate/internal/evidence"
)

// PodStore stores the pods of DaemonSets of one namespace by node, with at most 200 bytes for each. An informer needs
// more for its keys and indices alone. A reflector fills it.
type PodStore struct {
	failures
	nodesChanged func(objects ...any)
	cancel       func()

	mu     sync.Mutex
	byNode map[string][]evidence.DaemonPod
}

// NewPodStore returns an empty store for a watch of pods of DaemonSets. The function ends what fills it.
func NewPodStore(w *Watch, cancel func()) *PodStore {
	return &PodStore{failures: failures{changed: w.StateChanged}, nodesChanged: w.Changed, cancel: cancel,
		byNode: map[string][]evidence.DaemonPod{}}
}

// slimPod is a pod on its way into the store. A reflector asks for its name and version.
type slimPod struct {
	metav1.ObjectMeta
	node string
	kept bool
	pod  evidence.DaemonPod
}

// Transformer implements cache.TransformingStore, so that the first list is never in memory as a whole.
func (*PodStore) Transformer() cache.TransformFunc { return transform(stripDaemonPod) }

// Add implements cache.ReflectorStore.
func (s *PodStore) Add(o any) error { return s.apply(o, false) }

// Update implements cache.ReflectorStore.
func (s *PodStore) Update(o any) error { return s.apply(o, false) }

// Delete implements cache.ReflectorStore.
func (s *PodStore) Delete(o any) error { return s.apply(o, true) }

// Resync implements cache.ReflectorStore.
func (*PodStore) Resync() error { return nil }

// apply stores or deletes one pod. It reports the pod's node only if the stored copy has changed.
func (s *PodStore) apply(o any, deleted bool) error {
	p, err := slim(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	of := s.byNode[p.node]
	i := slices.IndexFunc(of, func(k evidence.DaemonPod) bool { return k.Name == p.Name })
	keep := p.kept && !deleted && p.node != ""
	differs := true
	switch {
	case i < 0 && !keep, i >= 0 && keep && of[i] == p.pod:
		differs = false
	case i < 0:
		s.byNode[p.node] = slices.Concat(of, []evidence.DaemonPod{p.pod}) // without room for more: few nodes get more
	case keep:
		of[i] = p.pod
	case len(of) == 1:
		delete(s.byNode, p.node)
	default:
		s.byNode[p.node] = slices.Delete(of, i, i+1)
	}
	s.mu.Unlock()
	if differs {
		s.nodesChanged(p)
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *PodStore) Replace(list []any, _ string) error {
	next := map[string][]evidence.DaemonPod{}
	for _, o := range list {
		p, err := slim(o)
		if err != nil {
			return err
		}
		if p.kept && p.node != "" {
			next[p.node] = append(next[p.node], p.pod)
		}
	}
	for node, pods := range next {
		next[node] = slices.Concat(pods)
	}
	s.mu.Lock()
	before := s.byNode
	s.byNode = next
	s.mu.Unlock()
	for node := range next {
		if !slices.Equal(before[node], next[node]) {
			s.nodesChanged(&slimPod{node: node})
		}
	}
	for node := range before {
		if next[node] == nil {
			s.nodesChanged(&slimPod{node: node})
		}
	}
	s.succeeded(&s.stored)
	return nil
}

func slim(o any) (*slimPod, error) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if pod, ok := o.(*corev1.Pod); ok {
		o = stripDaemonPod(pod)
	}
	if p, ok := o.(*slimPod); ok {
		return p, nil
	}
	return nil, fmt.Errorf("expected a pod, not a %T", o)
}

// Stop implements Informer.
func (s *PodStore) Stop() { s.cancel() }

// ByNode implements Informer. It returns one slice of readiness.DaemonPods, or nothing.
func (s *PodStore) ByNode(node string) []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byNode[node]) == 0 {
		return nil
	}
	return []any{slices.Clone(s.byNode[node])}
}

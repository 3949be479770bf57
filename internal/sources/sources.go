// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Listener is notified of changes. Its methods must not block.
type Listener interface {
	// NodesChanged is called with the nodes whose evidence has changed.
	NodesChanged(nodes ...string)
	// AvailabilityChanged is called if the result of Unavailable may have changed for a rule, or if DaemonSets have
	// changed.
	AvailabilityChanged()
}

// Sources watches the evidence for all rules. It is safe for concurrent use.
type Sources struct {
	informers Informers
	listener  Listener

	mu      sync.Mutex
	running map[key]Informer
	devices map[string]map[pool]int64 // by node: the last complete counts
	absent  map[string]absences       // by node
}

// absences holds since when DaemonSets have no pod on a node, by UID.
type absences map[types.UID]time.Time

// New returns Sources without watches.
func New(informers Informers, listener Listener) *Sources {
	return &Sources{informers: informers, listener: listener, running: map[key]Informer{},
		devices: map[string]map[pool]int64{}, absent: map[string]absences{}}
}

// SetRules starts the watches that the rules need. They end with the context, or with StopUnused.
func (s *Sources) SetRules(ctx context.Context, set *ruleset.Set) {
	needed := neededBy(set)
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range needed {
		if s.running[k] == nil {
			s.running[k] = s.informers.Follow(ctx, s.watchFor(k))
		}
	}
}

// StopUnused stops the watches that none of the sets needs, and forgets what was observed by them.
func (s *Sources) StopUnused(used ...*ruleset.Set) {
	needed := neededBy(used...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, running := range s.running {
		if !needed.Has(k) {
			running.Stop()
			delete(s.running, k)
		}
	}
	if !needed.Has(key{kind: resourceSlices}) {
		clear(s.devices)
	}
	if len(needed) == 0 {
		clear(s.absent)
	}
}

// neededBy returns the keys of all watches that sets of rules need.
func neededBy(all ...*ruleset.Set) sets.Set[key] {
	needed := sets.New[key]()
	for _, set := range all {
		for _, rule := range set.All() {
			for i := range rule.Requirements {
				needed.Insert(keysOf(&rule.Requirements[i])...)
			}
		}
	}
	return needed
}

// watchFor returns the watch of a key that notifies the listener.
func (s *Sources) watchFor(k key) *Watch {
	w := watchOf(k)
	w.Changed, w.StateChanged = s.changed, s.listener.AvailabilityChanged
	if k.kind == daemonSets {
		w.Changed = s.daemonSetsChanged
	}
	return w
}

// daemonSetsChanged makes the listener compile the rules again, because DaemonSets are part of them. A change of a
// DaemonSet's status does not matter.
func (s *Sources) daemonSetsChanged(objects ...any) {
	if versions := only[*evidence.DaemonSet](objects); len(versions) != 2 || !versions[0].Alike(versions[1]) {
		s.listener.AvailabilityChanged()
	}
}

// DaemonSets returns the DaemonSets of a namespace.
func (s *Sources) DaemonSets(namespace string) []*evidence.DaemonSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if running := s.running[key{kind: daemonSets, namespace: namespace}]; running != nil {
		return only[*evidence.DaemonSet](running.ByNode(noNode))
	}
	return nil
}

// changed notifies the listener of the nodes of objects.
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

// Unavailable returns the first requirement of a rule whose evidence cannot be read, or has not been read yet. It
// returns nil if all evidence has been read.
func (s *Sources) Unavailable(rule *ruleset.Rule) *ruleset.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range rule.Requirements {
		k, failure, read := s.unread(&rule.Requirements[i])
		if read {
			continue
		}
		reason, why := ruleset.ReasonPending, "has not been read yet"
		if failure != "" {
			reason, why = ruleset.ReasonUnavailable, "cannot be read: "+failure
			if k.kind == daemonSets {
				why += fmt.Sprintf("; the namespace %s must be in the chart value %s, or in config/daemonset-evidence",
					k.namespace, evidence.DaemonSetSetting)
			}
		}
		return &ruleset.Problem{Field: fmt.Sprintf("spec.requirements[%d]", i), Reason: reason,
			Message: fmt.Sprintf("the evidence of requirement %s %s", rule.Requirements[i].Name, why)}
	}
	return nil
}

// unread returns the first watch of a requirement that has not been read, and why it cannot be read, if it failed.
func (s *Sources) unread(r *evidence.Requirement) (k key, failure string, read bool) {
	for _, k := range keysOf(r) {
		running := s.running[k]
		if running == nil {
			return k, "", false
		}
		if failure := running.Failed(); failure != "" || !running.Synced() {
			return k, failure, false
		}
	}
	return key{}, "", true
}

// Unread returns why a requirement cannot be evaluated, or "" if it can.
func (s *Sources) Unread(r *evidence.Requirement) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, failure, read := s.unread(r)
	if read {
		return ""
	}
	return cmp.Or(failure, "it has not been read yet")
}

// Gather fills in the evidence on a node for all rules of a set as it is now. A watch that was stopped looks as if it
// had found nothing: the evidence counts only if the set is in force after Gather.
func (s *Sources) Gather(set *ruleset.Set, node string, e *evidence.Gathered) {
	if !set.Gathers() {
		return
	}
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
	gather(set, e, s.devices[node], func(k key) ([]any, bool) {
		running := s.running[k]
		if running == nil {
			return nil, false
		}
		return running.ByNode(node), true
	})
}

// AbsentSince returns evidence.Gathered.Absent for a node, for one decision. It forgets DaemonSets that it is not asked
// about. It is called by one goroutine at a time for each node.
func (s *Sources) AbsentSince(node string) func(types.UID, time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, now := s.absent[node], absences{}
	delete(s.absent, node)
	return func(ds types.UID, at time.Time) time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		if since, ok := before[ds]; ok {
			at = since
		}
		now[ds] = at
		s.absent[node] = now
		return at
	}
}

// Forget drops a deleted node.
func (s *Sources) Forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.devices, node)
	delete(s.absent, node)
}

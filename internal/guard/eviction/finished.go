// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// finished holds the ended guards whose evictions are all done, by node. It is safe for concurrent use. It is empty
// after a start, so a new process reconciles all nodes with the record of an ended guard.
type finished struct {
	mu    sync.Mutex
	nodes map[string]map[endedGuard]bool
}

// endedGuard identifies the guard of a rule by the time at which it ended.
type endedGuard struct {
	node, rule types.UID
	at         time.Time
}

// endedOn returns the ended guard of a rule from the node's record, or false if the record has none.
func endedOn(node *corev1.Node, rule *ruleset.Rule, now time.Time) (endedGuard, bool) {
	at := nodeview.StateOf(rule, node, now).Record.GuardEnded
	return endedGuard{node.UID, rule.UID, at.UTC()}, !at.IsZero()
}

// Evicted reports whether all pods that were due when the rule's guard ended on the node are evicted. It does not wait
// for pods that the API server refuses to delete.
func (r *Reconciler) Evicted(node *corev1.Node, rule *ruleset.Rule) bool {
	g, ended := endedOn(node, rule, r.Clock.Now())
	r.finished.mu.Lock()
	defer r.finished.mu.Unlock()
	return ended && r.finished.nodes[node.Name][g]
}

// finish records that all evictions of ended guards are done on a node, and drops earlier records of the node.
func (r *Reconciler) finish(node *corev1.Node, rules []*ruleset.Rule) {
	done := map[endedGuard]bool{}
	for _, rule := range rules {
		if g, ended := endedOn(node, rule, r.Clock.Now()); ended {
			done[g] = true
		}
	}
	r.finished.mu.Lock()
	before := r.finished.nodes[node.Name]
	more := false
	for g := range done {
		more = more || !before[g]
	}
	if r.finished.nodes == nil {
		r.finished.nodes = map[string]map[endedGuard]bool{}
	}
	r.finished.nodes[node.Name] = done
	if len(done) == 0 {
		delete(r.finished.nodes, node.Name)
	}
	r.finished.mu.Unlock()
	if more && r.Finished != nil {
		r.Finished(node.Name)
	}
}

func (f *finished) forget(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, node)
}

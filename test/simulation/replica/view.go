// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/model"
)

// ForeignLabel is on a CRD that is not ours.
const ForeignLabel = "example.com/foreign"

// ears are what a process has heard by its handlers, as opposed to what is in its stores.
type ears struct {
	rules  map[string]model.Document
	claims map[string]model.Document // as they were last read
	seen   map[types.UID]*v1alpha1.NodeReadinessRule
	edited map[string]bool // since the last quiet moment
	// versions are those of rules, and stopped is the evidence of watches that have stopped, since then
	versions map[string][]model.Document
	stopped  map[string][]model.Document
	pruned   map[string]bool
	left     map[string]bool           // nodes that were deleted, by name
	looked   map[string]model.Document // nodes as the controller has looked at them
	foreign  bool
	// changed is called before a handler is told of a change of a rule.
	changed func()
}

// note notes what a handler is about to be told.
func (e *ears) note(n notice) {
	if e.changes(n) {
		e.changed()
	}
	switch o := cmp.Or(n.after, n.before); {
	case o.Kind == api.Nodes && n.after == nil:
		e.left[o.Meta.GetName()] = true
	case o.Kind == api.Rules && n.after == nil:
		delete(e.rules, o.Key())
	case o.Kind == api.Rules:
		e.rule(o)
	case o.Kind == api.CRDs && n.after != nil:
		e.foreign = o.Meta.GetLabels()[ForeignLabel] != ""
	}
}

// look notes that the controller looks at all nodes, or at one.
func (r *Replica) look(names ...string) {
	stored := r.caughtUp(api.Nodes).objects
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(stored))
	}
	for _, name := range names {
		if delete(r.heard.looked, name); stored[name] != nil {
			r.heard.looked[name] = stored[name]
		}
	}
}

// changes reports whether a rule with a taint that the process knows is edited, or deleted.
func (e *ears) changes(n notice) bool {
	o := cmp.Or(n.after, n.before)
	if o.Kind != api.Rules || e.seen[o.Meta.GetUID()] == nil {
		return false
	}
	before := e.seen[o.Meta.GetUID()]
	if n.after == nil {
		return before.DeletionTimestamp == nil && before.Spec.Taint != nil
	}
	after := typed(n.after).(*v1alpha1.NodeReadinessRule)
	return before.Generation != after.Generation && (before.Spec.Taint != nil || after.Spec.Taint != nil)
}

// rule notes a version of a rule that the process was told of.
func (e *ears) rule(o *api.Object) {
	rule := typed(o).(*v1alpha1.NodeReadinessRule)
	uid, before := model.First(string(rule.UID)), e.seen[rule.UID]
	if before != nil && before.Generation != rule.Generation {
		e.edited[uid] = true
	} else if before != nil && !equality.Semantic.DeepEqual(before.Spec, rule.Spec) {
		e.pruned[uid] = true
	}
	e.seen[rule.UID], e.rules[rule.Name] = rule, o
	if e.versions[uid] == nil || before == nil || before.Generation != rule.Generation {
		e.versions[uid] = append(e.versions[uid], o)
	}
}

// Settled notes a quiet moment: the process judges rules that were edited by their present evidence.
func (r *Replica) Settled() {
	if !r.Up {
		return
	}
	clear(r.heard.edited)
	clear(r.heard.stopped)
	for uid, all := range r.heard.versions {
		r.heard.versions[uid] = all[len(all)-1:]
	}
}

// view is what the process was shown.
func (r *Replica) view() *model.View {
	v := &model.View{Process: r.process, Started: r.started, Now: r.World.Now(),
		Foreign: r.heard.foreign, Looked: maps.Clone(r.heard.looked),
		Nodes: map[string]model.Document{}, Rules: maps.Clone(r.heard.rules), Claims: maps.Clone(r.heard.claims),
		Evidence: map[string][]model.Document{}, Leaving: r.leaving(),
		Blind:  !r.unreadAt.IsZero() && r.World.Now().Sub(r.unreadAt) < podsRetry,
		Edited: maps.Clone(r.heard.edited), Pruned: maps.Clone(r.heard.pruned), Others: r.others.view(),
		Versions: maps.Clone(r.heard.versions), Stopped: maps.Clone(r.heard.stopped)}
	for name, o := range r.stores[api.Nodes].objects {
		v.Nodes[name] = o
	}
	for key, f := range r.evidence {
		if !f.store.listed || f.told != "" {
			continue
		}
		v.Evidence[key], v.Compiling = f.objects(), v.Compiling || f.compiles()
	}
	running, _ := r.server.List(api.Pods)
	for _, o := range running {
		v.Running = append(v.Running, o)
	}
	return v
}

// leaving reports whether a node is gone from the store, and the controller of nodes has not looked for it since.
func (r *Replica) leaving() bool {
	nodes, stored := r.controllers[0], r.stores[api.Nodes].objects
	if slices.ContainsFunc(nodes.source.pending, func(n notice) bool { return n.after == nil }) {
		return true
	}
	for _, requests := range []map[reconcile.Request]bool{nodes.queue.ready, nodes.queue.working} {
		for request := range requests {
			if stored[request.Name] == nil || r.heard.left[request.Name] {
				return true
			}
		}
	}
	return false
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/controller/node"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/model"
)

// Read is the verb of what a reconcile yields that has paused before it reads evidence.
const Read = "read"

// pausable lets reconciles of nodes pause after they have looked at the rules in force, and before they read evidence.
// Settle is called just there, and Propose while rules are being put in force.
func (r *Replica) pausable(nodes *node.Reconciler) {
	settle, propose := nodes.Settle, nodes.Propose
	nodes.Settle = func(ctx context.Context) error {
		err := settle(ctx)
		if err == nil {
			r.pause()
		}
		return err
	}
	nodes.Propose = func(set *ruleset.Set) {
		propose(set)
		for i := 0; r.Amid && i < len(r.Parked); {
			if w := r.Parked[i]; w.Verb != Read {
				i++
			} else {
				r.Parked = append(r.Parked[:i:i], r.Parked[i+1:]...)
				r.resume(w.task)
			}
		}
	}
}

// pause parks a reconcile that is to pause. Where no rule needs watches, rules may change meanwhile as they like.
func (r *Replica) pause() {
	if r.Pauses == 0 || !r.operator.Fleet.Rules().Gathers() {
		return
	}
	r.Pauses--
	t, rules := r.current, r.operator.Fleet.Rules()
	t.looked = r.view()
	read := api.Request{Verb: Read, Kind: api.Nodes, Name: t.request.Name}
	if !t.runs.yield(&Write{Request: read, Replica: r, task: t}) {
		panic(killed{})
	}
	if r.operator.Fleet.Rules() != rules {
		r.World.Met("rules change while a reconcile reads", string(api.Nodes))
	}
}

// shown is what a task was shown when it makes a write: the rules and its node as they were before it paused.
func (r *Replica) shown(t *task) *model.View {
	v := r.view()
	if was := t.looked; was != nil {
		v.Rules, v.Edited, v.Pruned, v.Foreign, v.Others = was.Rules, was.Edited, was.Pruned, was.Foreign, was.Others
		v.Versions = was.Versions
		v.Nodes[t.request.Name] = was.Nodes[t.request.Name]
	}
	v.Unlisted = t.unlisted
	return v
}

// lists notes whether a task could list pods.
func (t *task) lists(options []client.ListOption, could bool) {
	o := client.ListOptions{}
	o.ApplyOptions(options)
	if o.LabelSelector == nil {
		return
	}
	if t.unlisted == nil {
		t.unlisted = map[string]bool{}
	}
	t.unlisted[string(api.Pods)+":"+o.Namespace+"/"+o.LabelSelector.String()] = !could
}

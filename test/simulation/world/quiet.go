// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"strings"
	"time"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/model"
	"github.com/nodegate/nodegate/test/simulation/replica"
)

// moment is for how long the operator may put off what is due: it tries again, or collects changes.
const moment = 3 * time.Second

// quiet lets the replicas do all that is due, and asks the model whether it has happened.
func (w *World) quiet() {
	w.calm()
	for from, turn := w.now, 0; w.Model.Failure == "" && turn < maxTurns; turn++ {
		if w.wrote.After(from) {
			from = w.wrote
		}
		next := w.next()
		if next.IsZero() || next.After(from.Add(moment)) {
			break
		}
		w.advance(next)
		w.calm()
	}
	w.observe("quiet")
	leader := w.leader()
	if w.Model.Failure != "" || leader == nil || !w.readable() {
		return
	}
	for _, r := range w.replicas {
		if r.Retries(w.refused) || r.Up && !r.Current() {
			return
		}
	}
	v := w.by(leader)
	if len(w.refused) > 0 {
		w.Model.Refused(v, w.refused)
		return
	}
	w.Model.Quiet(v)
	w.Model.Listed(document(w.server.Get(api.AdmissionRules, listName)), v)
	for _, r := range w.replicas {
		r.Settled()
	}
}

// next is the next deadline of a replica; zero, if there is none.
func (w *World) next() time.Time {
	var first time.Time
	for _, r := range w.replicas {
		if at := r.Next(); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// leader is the replica that leads, and knows that it does.
func (w *World) leader() *replica.Replica {
	for _, r := range w.replicas {
		if r.Up && r.Leads && !r.Deposed {
			return r
		}
	}
	return nil
}

// readable reports whether the operator can read rules and evidence.
func (w *World) readable() bool { return w.served == "ours" && w.server.Serves() && !w.forbidden }

// current reports whether some replica runs, and all that do know the present state of nodes and rules.
func (w *World) current() bool {
	up := false
	for _, r := range w.replicas {
		up = up || r.Up
		if r.Up && !r.Current() {
			return false
		}
	}
	return up && w.readable()
}

// present is the present state, for the model.
func (w *World) present() *model.View {
	if version := w.server.Version(); w.view == nil || w.viewed != version {
		w.view = w.Model.At(w.all(api.Nodes), w.all(api.Rules), w.all(api.NodeClaims), w.evidence())
		w.viewed = version
	}
	v := *w.view
	v.Now = w.now
	return &v
}

// evidence are the objects of which evidence is made, by kind.
func (w *World) evidence() map[string][]model.Document {
	out := map[string][]model.Document{}
	for _, kind := range []api.Kind{api.Pods, api.DaemonSets, api.CSINodes, api.ResourceSlices} {
		out[string(kind)] = w.all(kind)
	}
	if w.others != nil {
		out[string(api.OtherRules)] = w.all(api.OtherRules)
	}
	return out
}

// observe lets the model see what a step of an actor has changed.
func (w *World) observe(do string) {
	group, _, _ := strings.Cut(do, ".")
	switch group {
	case "node", "claim", "pod", "daemon", "rule", "pass", "crd", "evidence", "quiet", "others", "group":
	default:
		return
	}
	version := w.server.Version()
	if version != w.seen || !w.now.Equal(w.seenAt) || group == "crd" || group == "evidence" {
		w.seen, w.seenAt = version, w.now
		w.Model.Observe(w.present(), w.readable())
	}
}

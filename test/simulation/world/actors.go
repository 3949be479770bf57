// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/replica"
	"github.com/nodegate/nodegate/test/simulation/script"
)

// poolLabel is the label that rules select nodes by; overrideKey, maintenanceKey and namespace are where people and
// pods write. replaceKey begins the annotations by which rules hand nodes over.
const (
	poolLabel      = "example.com/pool"
	overrideKey    = "nodegate.io/override"
	maintenanceKey = "nodegate.io/maintenance"
	recordKey      = "nodegate.io/rule-"
	markerKey      = "readiness.k8s.io/bootstrap-completed-"
	completedKey   = "example.com/completed"
	replaceKey     = "example.com/replace-"
	namespace      = "apps"
	listName       = "nodegate"
)

// do makes one step happen.
func (w *World) do(s *script.Step) { //nolint:gocyclo // one case for each kind of step
	r := w.replicas[s.Replica%len(w.replicas)]
	switch group, _, _ := strings.Cut(s.Do, "."); group {
	case "node":
		w.doNode(s)
	case "claim":
		w.doClaim(s)
	case "pod":
		w.doPod(s)
	case "rule":
		w.doRule(s)
	case "list":
		w.doList(s)
	case "daemon":
		w.doDaemons(s)
	case "others":
		w.doOthers(s, r)
	case "deliver":
		r.Deliver(api.Kind(s.Of), s.N)
	case "notify":
		r.Background()
		r.Notify(api.Kind(s.Of), s.Rule, s.N)
	case "work":
		if r.Up {
			r.Work(s.N)
		}
	case "answer":
		w.answer(r, s.N, replica.Fate(s.Of))
	case "begin":
		begin(r)
	case "settle":
		if w.settle(r); r == w.leader() && r.Idle() && !r.Retries(nil) && w.readable() {
			w.Model.Decided(w.by(r))
		}
	case "brink":
		w.brink(r, s.Of)
	case "land":
		w.land(s.N)
	case "pass":
		w.advance(w.now.Add(time.Duration(s.N) * time.Second))
		w.told = w.server.Version()
	case "link", "kept", "live":
		w.doLink(s)
	case "calm":
		w.calm()
		w.told = w.server.Version()
	case "quiet":
		w.quiet()
		w.told = w.server.Version()
	case "cut":
		r.Cut(api.Kind(s.Of), s.Value == "resumes")
	case "kill", "down", "up", "handover", "unread", "pause", "slow", "upgrade", "group":
		w.doProcess(r, s)
	case "crd":
		w.serve(s.Value, s.N > 0)
	case "evidence":
		w.forbidden = s.Value == "forbidden"
	}
	w.disturbs(s.Do)
	w.observe(s.Do)
	if !strings.Contains(s.Do, ".") { // the node controller sees a moment later what the actors have done
		w.evict()
	}
}

// doProcess ends or starts the process of a replica, makes it the leader, or lets its reads past the cache fail. Or it
// does what is done while no process runs.
func (w *World) doProcess(r *replica.Replica, s *script.Step) {
	switch s.Do {
	case "kill":
		r.Kill()
		if s.N > 0 {
			r.StartBehind(s.N)
		} else {
			r.Start()
		}
	case "down":
		r.Kill()
	case "up":
		if !r.Up {
			r.Start()
		}
	case "handover":
		w.handover(r)
	case "unread":
		if r.Up {
			r.Unread = s.N
		}
	case "pause":
		r.Pauses, r.Amid = s.N, s.Of == script.Amid
	case "upgrade":
		w.upgrade(s.Of)
	case "group.copy", "group.handover":
		w.doGroup(s)
	case "slow":
		r.Slow = time.Duration(s.N) * time.Second
	}
}

// handover makes another replica the leader. The old one does not start anything any more; its writes are still under
// way.
func (w *World) handover(to *replica.Replica) {
	if !to.Up || to.Leads || to.Deposed {
		return
	}
	for _, r := range w.replicas {
		if r.Leads {
			r.Deposed = true
		}
	}
	to.Lead()
}

// serve replaces the CRD. Watches of rules list again, or resume: then they show no rule again.
func (w *World) serve(which string, resume bool) {
	if which == "gone" {
		w.retire()
		return
	}
	if d := w.definitions.CRDs[which]; d != nil && (w.served != which || !w.server.Serves()) {
		w.server.Serve(d, !resume)
		w.served = which
		w.Model.Served()
	}
}

// retire deletes the CRD, and with it all rules.
func (w *World) retire() {
	rules, _ := w.server.List(api.Rules)
	w.server.Retire()
	for _, before := range rules {
		after := w.server.Get(api.Rules, before.Key())
		if after == nil {
			w.Model.Gone(document(before))
		}
		w.Model.RuleWritten(document(after))
	}
	w.Model.Served()
}

// send carries a request of an actor out. What is refused does not happen.
func (w *World) send(r api.Request) {
	_, _ = w.server.Do(r)
}

// doList lets a person write the list of the rules for admission, as a backup does that is restored, or delete it.
func (w *World) doList(s *script.Step) {
	if s.Do == "list.delete" {
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.AdmissionRules, Name: listName})
		return
	}
	patch := map[string]any{"groups": nil, "frozen": nil}
	if s.N > 0 {
		for _, before := range w.server.ListAt(api.AdmissionRules, max(0, w.server.Version()-int64(s.N))) {
			content := before.Meta.(*unstructured.Unstructured).Object
			patch["groups"], patch["frozen"] = content["groups"], content["frozen"]
		}
	}
	body, err := json.Marshal(patch)
	utilruntime.Must(err)
	w.send(api.Request{User: "admin", Verb: "patch", Patch: types.MergePatchType, Kind: api.AdmissionRules, Name: listName,
		Body: body})
}

func (w *World) doRule(s *script.Step) {
	name := ruleName(s.Rule)
	before := w.server.Get(api.Rules, name)
	switch s.Do {
	case "rule.create":
		body := fmt.Sprintf(`{"apiVersion":"readiness.node.x-k8s.io/v1alpha1","kind":"NodeReadinessRule",`+
			`"metadata":{"name":%q},"spec":%s}`, name, s.Value)
		w.send(api.Request{User: "admin", Verb: "create", Kind: api.Rules, Body: []byte(body)})
	case "rule.edit":
		body := fmt.Sprintf(`{"spec":%s}`, s.Value)
		w.send(api.Request{User: "admin", Verb: "patch", Patch: types.MergePatchType, Kind: api.Rules, Name: name,
			Body: []byte(body)})
	case "rule.delete":
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.Rules, Name: name})
	}
	if after := w.server.Get(api.Rules, name); after != before { // else a foreign CRD may only show it without some fields
		if after == nil && before != nil {
			w.Model.Gone(document(before))
		}
		w.Model.RuleWritten(document(after))
	}
}

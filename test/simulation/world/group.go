// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/model"
	"github.com/nodegate/nodegate/test/simulation/replica"
	"github.com/nodegate/nodegate/test/simulation/script"
)

const successorKey = "nodegate.io/successor-of"

// doGroup changes the API group, as "kubectl nodegate convert --live" does while the operator is stopped. The names in
// the API do not change here. No replica starts before the rules are handed over.
func (w *World) doGroup(s *script.Step) {
	switch {
	case s.Do == "group.copy" && w.successors == nil && w.movable():
		for _, r := range w.replicas {
			r.Kill()
		}
		w.around.Moving, w.successors = true, []string{}
		w.copyRules()
	case s.Do == "group.handover" && w.successors != nil:
		w.handOver()
		w.around.Moving, w.successors = false, nil
	}
}

// movable reports whether the rules can be moved: none is being deleted, the API server would create all, and what
// the rules that they continue wrote is moved.
func (w *World) movable() bool {
	rules, _ := w.server.List(api.Rules)
	nodes, _ := w.server.List(api.Nodes)
	written := func(uid string) bool {
		return uid != "" && slices.ContainsFunc(nodes, func(o *api.Object) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(o.Meta.GetAnnotations())), func(key string) bool {
				return strings.HasSuffix(key, "-"+uid)
			})
		})
	}
	return len(rules) > 0 && w.served == "ours" && w.server.Serves() && !slices.ContainsFunc(rules,
		func(o *api.Object) bool {
			return o.Meta.GetDeletionTimestamp() != nil || admitRule(&api.Request{}, nil, o.Meta) != nil ||
				written(o.Meta.GetAnnotations()[successorKey])
		})
}

// copyRules creates a rule for each one, the oldest first, with its status.
func (w *World) copyRules() {
	rules, _ := w.server.List(api.Rules)
	slices.SortStableFunc(rules, func(a, b *api.Object) int { // those of one second are in the order of their names
		return cmp.Compare(a.Meta.GetCreationTimestamp().Unix(), b.Meta.GetCreationTimestamp().Unix())
	})
	w.server.Leave()
	w.late = slices.DeleteFunc(w.late, func(write *replica.Write) bool { return write.Kind == api.Rules })
	last := ""
	for _, of := range rules {
		if of.Key() < last {
			w.advance(w.now.Add(time.Second))
		}
		last = of.Key()
		w.copyRule(of.Meta.(*unstructured.Unstructured))
	}
}

func (w *World) copyRule(of *unstructured.Unstructured) {
	uid, generation := of.GetUID(), of.GetGeneration()
	before := struct {
		Generation int64
		Created    time.Time
	}{Created: of.GetCreationTimestamp().Time}
	annotations := of.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if text, there := annotations[model.Continued]; there {
		utilruntime.Must(json.Unmarshal([]byte(text), &before))
	}
	before.Generation += generation - 1
	raw, err := json.Marshal(before)
	utilruntime.Must(err)
	annotations[model.Continued], annotations[successorKey] = string(raw), string(uid)
	rule := &unstructured.Unstructured{Object: map[string]any{"apiVersion": of.GetAPIVersion(), "kind": of.GetKind(),
		"spec": of.DeepCopy().Object["spec"]}}
	rule.SetName(of.GetName())
	rule.SetAnnotations(annotations)
	w.send(api.Request{User: "admin", Verb: "create", Kind: api.Rules, Object: rule, UID: uid})
	after := w.server.Get(api.Rules, of.GetName())
	w.successors = append(w.successors, string(uid), string(after.Meta.GetUID()))
	if status, there := of.DeepCopy().Object["status"].(map[string]any); there {
		continued := after.Meta.(*unstructured.Unstructured).DeepCopy()
		continued.Object["status"] = translated(status, generation)
		w.send(api.Request{User: "admin", Verb: "update", Kind: api.Rules, Name: of.GetName(), Sub: "status",
			Object: continued})
	}
	w.Model.RuleWritten(document(w.server.Get(api.Rules, of.GetName())))
}

// translated returns a status for a rule of the first generation: what belongs to the last one of the rule that it
// continues belongs to it.
func translated(status map[string]any, last int64) map[string]any {
	translate := func(in any, field string) {
		of, _ := in.(map[string]any)
		switch generation := of[field]; {
		case generation == nil:
		case fmt.Sprint(generation) == fmt.Sprint(last): // a number of JSON may be of another type
			of[field] = int64(1)
		case field == "generation":
			of[field] = int64(0)
		default:
			delete(of, field)
		}
	}
	translate(status, "observedGeneration")
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		translate(c, "observedGeneration")
	}
	replacements, _ := status["replacements"].(map[string]any)
	nodes, _ := replacements["last"].([]any)
	for _, n := range nodes {
		translate(n, "generation")
	}
	return status
}

// handOver writes the UIDs of the new rules into the rules for admission.
func (w *World) handOver() {
	before := w.server.Get(api.AdmissionRules, listName)
	if before == nil {
		w.send(api.Request{User: "admin", Verb: "create", Kind: api.AdmissionRules, Body: fmt.Appendf(nil,
			`{"apiVersion":"nodegate.io/v1alpha1","kind":"AdmissionRules","metadata":{"name":%q},"markerPrefix":%q}`, listName,
			markerKey)})
		return
	}
	w.send(api.Request{User: "admin", Verb: "update", Kind: api.AdmissionRules, Name: listName,
		Body: []byte(strings.NewReplacer(w.successors...).Replace(string(before.JSON())))})
}

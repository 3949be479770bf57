// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/replica"
	"github.com/nodegate/nodegate/test/simulation/script"
)

func otherName(n int) string { return fmt.Sprintf("f%d", n) }

// doOthers is what another controller and its users do, and what becomes of a replica's reads of its rules.
func (w *World) doOthers(s *script.Step, r *replica.Replica) {
	name := otherName(s.Rule)
	served := w.others != nil && len(w.others.Versions) > 0
	switch {
	case w.others == nil:
	case s.Do == "others.crd":
		w.others.Changes++
		if w.others.Versions = strings.Split(s.Value, ","); s.Value == "gone" {
			w.others.Versions = nil
			rules, _ := w.server.List(api.OtherRules)
			for _, rule := range rules {
				w.send(api.Request{User: "admin", Verb: "delete", Kind: api.OtherRules, Name: rule.Key()})
			}
		}
	case s.Do == "others.reads":
		if r.Reads = replica.Reads(s.Value); s.N > 0 {
			r.CutOthers()
		}
	case s.Do == "others.create" && served:
		body := fmt.Sprintf(`{"apiVersion":"readiness.node.x-k8s.io/v1alpha1","kind":"NodeReadinessRule",`+
			`"metadata":{"name":%q},"spec":%s}`, name, s.Value)
		w.send(api.Request{User: "admin", Verb: "create", Kind: api.OtherRules, Body: []byte(body)})
	case s.Do == "others.edit" && served:
		w.send(api.Request{User: "admin", Verb: "patch", Patch: types.MergePatchType, Kind: api.OtherRules, Name: name,
			Body: fmt.Appendf(nil, `{"spec":%s}`, s.Value)})
	case s.Do == "others.delete":
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.OtherRules, Name: name})
	case s.Do == "others.taint", s.Do == "others.untaint":
		w.taintAs(name, s)
	}
}

// taintAs adds the taint of a rule of another controller to a node, or removes it, as that controller does.
func (w *World) taintAs(name string, s *script.Step) {
	o := w.server.Get(api.OtherRules, name)
	if o == nil {
		return
	}
	spec := struct {
		Taint  corev1.Taint
		DryRun bool
	}{}
	raw, err := json.Marshal(o.Meta.(*unstructured.Unstructured).Object["spec"])
	utilruntime.Must(err)
	utilruntime.Must(json.Unmarshal(raw, &spec))
	if spec.DryRun {
		return
	}
	w.change(s.Node, "others", "", func(n *corev1.Node) {
		before := n.Spec.Taints
		n.Spec.Taints = nil
		for _, t := range before {
			if !t.MatchTaint(&spec.Taint) {
				n.Spec.Taints = append(n.Spec.Taints, t)
			}
		}
		if s.Do == "others.taint" {
			n.Spec.Taints = append(n.Spec.Taints, spec.Taint)
		}
	})
}

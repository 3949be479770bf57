// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/script"
)

// fillerKey is an annotation that takes the room of others; finalizer keeps a node that is deleted.
const (
	fillerKey = "example.com/filler"
	finalizer = "example.com/drain"
)

// care is what remediators and administrators do about a node: they cordon or delete one that a rule holds, let it
// terminate for a while, and fill its annotations.
func (w *World) care(s *script.Step) {
	o := w.server.Get(api.Nodes, nodeName(s.Node))
	if o == nil {
		return
	}
	held := slices.ContainsFunc(o.Meta.(*corev1.Node).Spec.Taints, func(t corev1.Taint) bool {
		return strings.HasPrefix(t.Key, "example.com/t")
	})
	switch {
	case s.Do == "node.finish":
		w.change(s.Node, "admin", "", func(n *corev1.Node) { n.Finalizers = nil })
	case s.Do == "node.fill":
		w.Model.Filled(document(o))
		w.change(s.Node, "admin", "", func(n *corev1.Node) { fill(n, s.N) })
	case held && s.Of == "cordon":
		w.change(s.Node, "admin", "", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	case held:
		if s.Of == "terminate" {
			w.change(s.Node, "admin", "", func(n *corev1.Node) { n.Finalizers = []string{finalizer} })
		}
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.Nodes, Name: nodeName(s.Node)})
		w.observe("node.delete")
		w.register(s, func(*corev1.Node) {})
	}
}

// tamper edits or deletes what the operator keeps on a node for a rule.
func (w *World) tamper(s *script.Step) {
	before, rule := w.server.Get(api.Nodes, nodeName(s.Node)), w.server.Get(api.Rules, ruleName(s.Rule))
	if before == nil || rule == nil {
		return
	}
	uid := string(rule.Meta.GetUID())
	key := map[string]string{"record": recordKey + uid, "marker": markerKey + uid, "mark": replaceKey + ruleName(s.Rule),
		"completion": completedKey}[s.Of]
	w.change(s.Node, "admin", "", func(n *corev1.Node) {
		if _, there := n.Annotations[key]; there && s.Value == "" {
			delete(n.Annotations, key)
		} else if there || s.Value != "" && s.Of != "mark" {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, s.Value)
		}
	})
	w.Model.Tampered(document(before), document(w.server.Get(api.Nodes, nodeName(s.Node))), key, w.script.Unguarded)
}

// fill leaves so many bytes of what the annotations of a node may take.
func fill(n *corev1.Node, left int) {
	used := len(fillerKey)
	for key, value := range n.Annotations {
		if key != fillerKey {
			used += len(key) + len(value)
		}
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, fillerKey, strings.Repeat("x", max(0, api.MaxAnnotations-used-left)))
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/script"
)

// remedy is what remediators do about a node: they cordon or delete one that a rule holds.
func (w *World) remedy(s *script.Step) {
	o := w.server.Get(api.Nodes, nodeName(s.Node))
	if o == nil {
		return
	}
	held := slices.ContainsFunc(o.Meta.(*corev1.Node).Spec.Taints, func(t corev1.Taint) bool {
		return strings.HasPrefix(t.Key, "example.com/t")
	})
	switch {
	case held && s.Of == "cordon":
		w.change(s.Node, "admin", "", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	case held:
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.Nodes, Name: nodeName(s.Node)})
		w.observe("node.delete")
		w.register(s, func(*corev1.Node) {})
	}
}

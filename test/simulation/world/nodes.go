// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/script"
)

func nodeName(n int) string { return fmt.Sprintf("n%d", n) }
func ruleName(n int) string { return fmt.Sprintf("r%d", n) }
func podName(s *script.Step) string {
	return fmt.Sprintf("n%d-p%d", s.Node, s.Pod)
}

// change writes a node, or its status, as an actor.
func (w *World) change(n int, user, sub string, edit func(*corev1.Node)) {
	o := w.server.Get(api.Nodes, nodeName(n))
	if o == nil {
		return
	}
	node := o.Meta.(*corev1.Node).DeepCopy()
	edit(node)
	node.ResourceVersion = ""
	w.send(api.Request{User: user, Verb: "update", Kind: api.Nodes, Name: node.Name, Sub: sub, Object: node})
	now := w.server.Get(api.Nodes, nodeName(n))
	if now == nil { // it was terminating
		return
	}
	after := now.Meta.(*corev1.Node)
	if was := o.Meta.(*corev1.Node); !maps.Equal(was.Annotations, after.Annotations) ||
		!equality.Semantic.DeepEqual(was.Spec.Taints, after.Spec.Taints) {
		w.Model.Actor(document(now))
	}
}

// join registers a node: one with many annotations, or one with a taint or a forged record.
func (w *World) join(s *script.Step) {
	if s.Do == "node.adorn" {
		w.register(s, func(n *corev1.Node) {
			n.Annotations = map[string]string{}
			for i := range s.N {
				n.Annotations[fmt.Sprintf("a%x", i)] = ""
			}
		})
		return
	}
	w.register(s, func(n *corev1.Node) {
		if s.Of != "" { // a forged record claims a foreign taint that the node does not have
			n.Annotations = map[string]string{recordKey + s.Of: `{"rule":"gone","taint":"example.com/foreign=:NoExecute"}`}
		}
		if rule := w.server.Get(api.Rules, ruleName(s.Rule)); rule != nil { // a forged record says that it is in service
			n.Annotations = map[string]string{recordKey + string(rule.Meta.GetUID()): `{"released":"2026-01-01T00:00:00Z"}`}
		}
		switch s.Pod {
		case 1:
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/t1", Value: "brought",
				Effect: corev1.TaintEffectNoSchedule})
		case 2:
			n.Labels[skipLabel] = ""
		case 3:
			n.Spec.Taints = append(n.Spec.Taints, w.taintOf(s.Rule)...)
		}
		if s.N > 0 { // now it has the taint
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/foreign",
				Effect: corev1.TaintEffectNoExecute})
		}
	})
}

// taintOf is the taint of a rule; none, if there is no such rule.
func (w *World) taintOf(rule int) []corev1.Taint {
	o := w.server.Get(api.Rules, ruleName(rule))
	if o == nil {
		return nil
	}
	taint, _ := specOf(o.Meta)["taint"].(map[string]any)
	text := func(field string) string { value, _ := taint[field].(string); return value }
	return []corev1.Taint{{Key: text("key"), Value: text("value"), Effect: corev1.TaintEffect(text("effect"))}}
}

func (w *World) doNode(s *script.Step) { //nolint:gocyclo // one case for each step
	switch s.Do {
	case "node.create", "node.adorn":
		w.join(s)
	case "node.delete":
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.Nodes, Name: nodeName(s.Node)})
	case "node.label":
		w.label(s)
	case "node.rack":
		w.change(s.Node, "admin", "", func(n *corev1.Node) { place(n, rackLabel, s.Value) })
	case "node.zone":
		w.change(s.Node, "admin", "", func(n *corev1.Node) { place(n, zoneLabel, s.Value) })
	case "node.refuse":
		if delete(w.refused, nodeName(s.Node)); s.Value != "" {
			w.refused[nodeName(s.Node)] = true
		}
	case "node.cordon":
		w.change(s.Node, "admin", "", func(n *corev1.Node) { n.Spec.Unschedulable = s.Value == "true" })
	case "node.override":
		w.change(s.Node, "admin", "", func(n *corev1.Node) {
			delete(n.Annotations, overrideKey)
			if s.Value != "" {
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, overrideKey, s.Value)
			}
			if s.Value != "" && s.N > 0 {
				n.Annotations[overrideKey] += ";until=" + w.now.Add(time.Duration(s.N)*time.Second).UTC().Format(time.RFC3339)
			}
		})
	case "node.maintain":
		w.change(s.Node, "admin", "", func(n *corev1.Node) {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, maintenanceKey, s.Value)
		})
	case "node.role":
		w.change(s.Node, "admin", "", func(n *corev1.Node) {
			metav1.SetMetaDataLabel(&n.ObjectMeta, "node-role.kubernetes.io/control-plane", "")
		})
	case "node.tamper":
		w.tamper(s)
	case "node.remedy", "node.finish", "node.fill":
		w.care(s)
	case "node.replace":
		w.replace(s)
	case "node.release":
		w.release(s)
	case "node.lost", "node.back":
		w.lose(s.Node, s.Do == "node.lost")
	case "node.taint", "node.untaint":
		w.taint(s)
	case "node.report":
		w.report(s)
	case "node.resource":
		w.change(s.Node, "kubelet", "status", func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{"example.com/gpu": *resource.NewQuantity(int64(s.N), resource.DecimalSI)}
		})
	case "node.driver":
		w.driver(s)
	case "node.devices":
		w.devices(s)
	case "node.beat":
		w.beat(s.Node)
	case "node.clock":
		w.ahead[s.Node] += time.Duration(s.N) * time.Second
		if o := w.server.Get(api.Nodes, nodeName(s.Node)); o != nil && s.N < 0 {
			w.Model.SetBack(string(o.Meta.GetUID()))
		}
	case "node.reboot":
		w.lose(s.Node, false)
		w.boots[s.Node]++
		w.change(s.Node, "kubelet", "status", func(n *corev1.Node) {
			n.Status.NodeInfo.BootID = fmt.Sprintf("boot-%d", w.boots[s.Node]) + strings.Repeat("x", s.N)
			readyOf(n).LastHeartbeatTime = metav1.NewTime(w.clock(s.Node))
			w.Model.Boot(string(n.UID), n.Status.NodeInfo.BootID, w.clock(s.Node))
		})
	}
}

// label puts a node into a pool. A kubelet that labels its own node must not be refused.
func (w *World) label(s *script.Step) {
	user := cmp.Or(s.Of, "admin")
	w.change(s.Node, user, "", func(n *corev1.Node) {
		rack, zone := n.Labels[rackLabel], n.Labels[zoneLabel]
		n.Labels = map[string]string{poolLabel: s.Value}
		place(n, rackLabel, rack)
		place(n, zoneLabel, zone)
	})
	if o := w.server.Get(api.Nodes, nodeName(s.Node)); o != nil {
		w.Model.Labelled(document(o), poolLabel, s.Value, w.script.Policy)
	}
}

// release is an attempt of a kubelet, or of an account that may write nodes/status, to overrule rules.
func (w *World) release(s *script.Step) {
	if w.script.Unguarded {
		return // then any account may
	}
	sub := "status"
	if s.Of == "kubelet" && s.N == 0 {
		sub = ""
	}
	before := document(w.server.Get(api.Nodes, nodeName(s.Node)))
	w.change(s.Node, s.Of, sub, func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, s.Value, "Release") })
	w.Model.Overruled(before, document(w.server.Get(api.Nodes, nodeName(s.Node))))
}

// lose cuts a node's link, or repairs it: the node lifecycle controller sets Ready and its taint.
func (w *World) lose(n int, lost bool) {
	w.link(n, lost)
	if w.lost[n] == lost {
		return
	}
	w.lost[n] = lost
	now := metav1.NewTime(w.now.UTC().Truncate(time.Second))
	status, user := corev1.ConditionUnknown, "node-controller"
	if !lost {
		status, user, now = corev1.ConditionTrue, "kubelet", metav1.NewTime(w.clock(n))
	}
	w.change(n, user, "status", func(node *corev1.Node) {
		c := readyOf(node)
		c.Status, c.LastTransitionTime = status, now
		if !lost {
			c.LastHeartbeatTime = now
		}
	})
	w.change(n, "node-controller", "", func(node *corev1.Node) {
		untaint(node, corev1.TaintNodeUnreachable)
		if lost {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable,
				Effect: corev1.TaintEffectNoExecute, TimeAdded: &now})
		}
	})
	if w.script.Endpoints {
		w.markPods(n, lost)
	}
}

// readyOf is a node's condition Ready. It is not the first one: a strategic merge patch puts what is new before it.
func readyOf(n *corev1.Node) *corev1.NodeCondition {
	at := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	return &n.Status.Conditions[at]
}

// register creates a node, as its kubelet does.
func (w *World) register(s *script.Step, edit func(*corev1.Node)) {
	if w.server.Get(api.Nodes, nodeName(s.Node)) != nil {
		return
	}
	w.boots[s.Node]++
	now := metav1.NewTime(w.clock(s.Node))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(s.Node),
		Labels: map[string]string{poolLabel: s.Value}}}
	place(node, rackLabel, [...]string{"a", "b", "a", ""}[s.Node%4])
	place(node, zoneLabel, [...]string{"x", "y", ""}[s.Node%3])
	node.Status.NodeInfo.BootID = fmt.Sprintf("boot-%d", w.boots[s.Node])
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	edit(node)
	delete(w.lost, s.Node)
	w.link(s.Node, false)
	brought := maps.Clone(node.Annotations)
	maps.DeleteFunc(brought, func(key, _ string) bool { return !strings.HasPrefix(key, recordKey) })
	annotations := len(node.Annotations)
	w.send(api.Request{User: "kubelet", Verb: "create", Kind: api.Nodes, Name: node.Name, Object: node})
	if s.Of == "" && s.Rule == 0 {
		w.Model.Joins(node.Name, annotations, w.server.Get(api.Nodes, node.Name) != nil)
	}
	if o := w.server.Get(api.Nodes, node.Name); len(brought) > 0 && o != nil {
		w.Model.Forged(document(o), brought, w.script.Unguarded)
	}
	w.change(s.Node, "node-controller", "", func(n *corev1.Node) { untaint(n, corev1.TaintNodeNotReady) })
}

// rackLabel and zoneLabel are the failure domains of nodes.
const rackLabel, zoneLabel = "example.com/rack", "topology.kubernetes.io/zone"

// place puts a node into a domain, or into none.
func place(n *corev1.Node, label, domain string) {
	delete(n.Labels, label)
	if domain != "" {
		n.Labels[label] = domain
	}
}

// replace is a remediator: it deletes a node that a rule has handed over, and another one registers.
func (w *World) replace(s *script.Step) {
	o := w.server.Get(api.Nodes, nodeName(s.Node))
	if o == nil {
		return
	}
	for key := range o.Meta.GetAnnotations() {
		if strings.HasPrefix(key, replaceKey) {
			w.send(api.Request{User: "admin", Verb: "delete", Kind: api.Nodes, Name: nodeName(s.Node)})
			w.register(s, func(*corev1.Node) {})
			return
		}
	}
}

func untaint(n *corev1.Node, key string) {
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// taint puts a taint on a node, or takes it off: key:effect.
func (w *World) taint(s *script.Step) {
	key, effect, _ := strings.Cut(s.Value, ":")
	w.change(s.Node, "admin", "", func(n *corev1.Node) {
		untaint(n, key)
		if s.Do == "node.taint" {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
		}
	})
}

// report sets a condition of a node, by the node's clock or at an odd time, or without a heartbeat.
func (w *World) report(s *script.Step) {
	condition, status := "example.com/"+s.Of, s.Value
	now := metav1.NewTime(w.clock(s.Node).Add(time.Duration(s.N) * time.Second))
	heartbeat := now
	if s.Pod > 0 {
		heartbeat = metav1.Time{}
	}
	w.change(s.Node, "reporter", "status", func(node *corev1.Node) {
		w.Model.Odd(string(node.UID), s.N != 0)
		for i := range node.Status.Conditions {
			c := &node.Status.Conditions[i]
			if string(c.Type) != condition {
				continue
			}
			if string(c.Status) != status {
				c.Status, c.LastTransitionTime = corev1.ConditionStatus(status), now
			}
			c.LastHeartbeatTime, c.Reason = heartbeat, "Reported"
			w.Model.Reported(string(node.UID), condition)
			return
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(condition), Status: corev1.ConditionStatus(status), Reason: "Reported",
			LastHeartbeatTime: heartbeat, LastTransitionTime: now,
		})
	})
}

// beat repeats what was reported of a node, and kubelet brings the status of its pods up to date.
func (w *World) beat(n int) {
	o := w.server.Get(api.Nodes, nodeName(n))
	if o == nil || w.silent(n) {
		return
	}
	now := metav1.NewTime(w.clock(n))
	node := o.Meta.(*corev1.Node).DeepCopy()
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; !strings.HasPrefix(c.Reason, "NodegateRule") {
			c.LastHeartbeatTime = now
		}
	}
	w.send(api.Request{User: "kubelet", Verb: "update", Kind: api.Nodes, Name: node.Name, Sub: "status", Object: node})
}

// beatAll lets kubelet and the reporters of all nodes repeat what they said, and restarts what a reboot ended.
func (w *World) beatAll() {
	for n := 1; n <= script.MaxNodes; n++ {
		w.beat(n)
		for p := 1; p <= script.MaxPods+script.MaxDaemons; p++ {
			w.refresh(n, p)
		}
	}
}

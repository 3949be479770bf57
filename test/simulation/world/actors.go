// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/replica"
	"github.com/nodegate/nodegate/test/simulation/script"
)

// poolLabel is the label that rules select nodes by; overrideKey and namespace are where people and pods write.
const (
	poolLabel   = "example.com/pool"
	overrideKey = "readiness.node.x-k8s.io/override"
	namespace   = "apps"
)

// do makes one step happen.
func (w *World) do(s *script.Step) {
	r := w.replicas[s.Replica%len(w.replicas)]
	switch group, _, _ := strings.Cut(s.Do, "."); group {
	case "node":
		w.doNode(s)
	case "pod":
		w.doPod(s)
	case "rule":
		w.doRule(s)
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
	case "pass":
		w.now = w.now.Add(time.Duration(s.N) * time.Second)
	case "calm":
		w.calm()
	case "cut":
		r.Cut(api.Kind(s.Of))
	case "kill":
		r.Kill()
		r.Start()
	case "down":
		r.Kill()
	case "up":
		if !r.Up {
			r.Start()
		}
	case "handover":
		w.handover(r)
	case "crd":
		w.serve(s.Value)
	case "evidence":
		w.forbidden = s.Value == "forbidden"
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

// serve replaces the CRD.
func (w *World) serve(which string) {
	if d := w.definitions[which]; d != nil && w.Model.Served != which {
		w.server.Serve(d)
		w.Model.Serve(which)
	}
}

func nodeName(n int) string { return fmt.Sprintf("n%d", n) }
func ruleName(n int) string { return fmt.Sprintf("r%d", n) }
func podName(s *script.Step) string {
	return fmt.Sprintf("n%d-p%d", s.Node, s.Pod)
}

// send carries a request of an actor out. What is refused does not happen.
func (w *World) send(r api.Request) {
	_, _ = w.server.Do(r)
}

// admit refuses rules without evidence, as the CRD does.
func admit(r *api.Request, _, after metav1.Object) error {
	rule, ok := after.(*unstructured.Unstructured)
	if !ok || r.Kind != api.Rules || r.Sub != "" {
		return nil
	}
	conditions, _, _ := unstructured.NestedSlice(rule.Object, "spec", "conditions")
	requirements, _, _ := unstructured.NestedSlice(rule.Object, "spec", "requirements")
	if len(conditions)+len(requirements) == 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "NodeReadinessRule"}, r.Name, nil)
	}
	return nil
}

// clock is the clock of a node.
func (w *World) clock(n int) time.Time {
	at := w.now
	if n >= 1 && n <= len(w.script.Skew) {
		at = at.Add(time.Duration(w.script.Skew[n-1]) * time.Second)
	}
	return at.UTC().Truncate(time.Second)
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
	body, err := json.Marshal(node)
	if err != nil {
		panic(err)
	}
	w.send(api.Request{User: user, Verb: "update", Kind: api.Nodes, Name: node.Name, Sub: sub, Body: body})
	w.Model.Actor(document(w.server.Get(api.Nodes, node.Name)))
}

func (w *World) doNode(s *script.Step) {
	switch s.Do {
	case "node.create":
		w.register(s)
	case "node.delete":
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.Nodes, Name: nodeName(s.Node)})
	case "node.label":
		w.change(s.Node, "admin", "", func(n *corev1.Node) { n.Labels = map[string]string{poolLabel: s.Value} })
	case "node.cordon":
		w.change(s.Node, "admin", "", func(n *corev1.Node) { n.Spec.Unschedulable = s.Value == "true" })
	case "node.override":
		w.change(s.Node, "admin", "", func(n *corev1.Node) {
			delete(n.Annotations, overrideKey)
			if s.Value != "" {
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, overrideKey, s.Value)
			}
		})
	case "node.taint", "node.untaint":
		w.taint(s)
	case "node.report":
		w.report(s.Node, "example.com/"+s.Of, s.Value)
	case "node.beat":
		w.beat(s.Node)
	case "node.reboot":
		w.boots[s.Node]++
		w.change(s.Node, "kubelet", "status", func(n *corev1.Node) {
			n.Status.NodeInfo.BootID = fmt.Sprintf("boot-%d", w.boots[s.Node])
			n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(w.clock(s.Node))
			w.Model.Boot(string(n.UID), n.Status.NodeInfo.BootID, w.clock(s.Node))
		})
	}
}

// register creates a node, as its kubelet does. Those in pool tainted come with the taint of rule r1's kind.
func (w *World) register(s *script.Step) {
	w.boots[s.Node]++
	now := metav1.NewTime(w.clock(s.Node))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(s.Node),
		Labels: map[string]string{poolLabel: s.Value}}}
	node.Status.NodeInfo.BootID = fmt.Sprintf("boot-%d", w.boots[s.Node])
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	body, err := json.Marshal(node)
	if err != nil {
		panic(err)
	}
	w.send(api.Request{User: "kubelet", Verb: "create", Kind: api.Nodes, Body: body})
	w.change(s.Node, "node-controller", "", func(n *corev1.Node) {
		n.Spec.Taints = without(n.Spec.Taints,
			corev1.TaintNodeNotReady)
	})
}

func without(taints []corev1.Taint, key string) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range taints {
		if t.Key != key {
			out = append(out, t)
		}
	}
	return out
}

// taint puts a taint on a node, or takes it off: key:effect.
func (w *World) taint(s *script.Step) {
	key, effect, _ := strings.Cut(s.Value, ":")
	w.change(s.Node, "admin", "", func(n *corev1.Node) {
		n.Spec.Taints = without(n.Spec.Taints, key)
		if s.Do == "node.taint" {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
		}
	})
}

// report sets a condition of a node, by the node's clock.
func (w *World) report(n int, condition, status string) {
	now := metav1.NewTime(w.clock(n))
	w.change(n, "reporter", "status", func(node *corev1.Node) {
		for i := range node.Status.Conditions {
			c := &node.Status.Conditions[i]
			if string(c.Type) != condition {
				continue
			}
			if string(c.Status) != status {
				c.Status, c.LastTransitionTime = corev1.ConditionStatus(status), now
			}
			c.LastHeartbeatTime = now
			return
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(condition), Status: corev1.ConditionStatus(status), LastHeartbeatTime: now,
			LastTransitionTime: now,
		})
	})
}

// beat repeats what was reported of a node, and kubelet brings the status of its pods up to date.
func (w *World) beat(n int) {
	now := metav1.NewTime(w.clock(n))
	w.change(n, "kubelet", "status", func(node *corev1.Node) {
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].LastHeartbeatTime = now
		}
	})
}

// beatAll lets kubelet and the reporters of all nodes repeat what they said, and restarts what a reboot ended.
func (w *World) beatAll() {
	for n := 1; n <= script.MaxNodes; n++ {
		w.beat(n)
		for p := 1; p <= script.MaxPods; p++ {
			w.refresh(n, p)
		}
	}
}

// refresh starts a pod's container again if the node has rebooted since.
func (w *World) refresh(n, p int) {
	o := w.server.Get(api.Pods, namespace+"/"+podName(&script.Step{Node: n, Pod: p}))
	if o == nil {
		return
	}
	pod := o.Meta.(*corev1.Pod)
	if pod.Annotations["boot"] == fmt.Sprint(w.boots[n]) || len(pod.Status.ContainerStatuses) == 0 {
		return
	}
	w.podStatus(n, pod, pod.Status.ContainerStatuses[0].Ready)
}

func (w *World) doPod(s *script.Step) {
	switch s.Do {
	case "pod.create":
		if w.server.Get(api.Nodes, nodeName(s.Node)) == nil {
			return
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName(s),
			Labels: map[string]string{"app": s.Value}}}
		pod.Spec.NodeName = nodeName(s.Node)
		pod.Spec.Containers = []corev1.Container{{Name: "main", ReadinessProbe: &corev1.Probe{}}}
		body, err := json.Marshal(pod)
		if err != nil {
			panic(err)
		}
		w.send(api.Request{User: "scheduler", Verb: "create", Kind: api.Pods, Body: body})
	case "pod.ready":
		if o := w.server.Get(api.Pods, namespace+"/"+podName(s)); o != nil {
			w.podStatus(s.Node, o.Meta.(*corev1.Pod), s.Value == "true")
		}
	case "pod.delete":
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.Pods, Namespace: namespace, Name: podName(s),
			Grace: new(int64)})
	}
}

// podStatus writes a pod's status, as kubelet does. A container starts when the node's boot is another than before.
func (w *World) podStatus(n int, old *corev1.Pod, ready bool) {
	pod := old.DeepCopy()
	now := metav1.NewTime(w.clock(n))
	boot := fmt.Sprint(w.boots[n])
	started := now
	if cs := pod.Status.ContainerStatuses; len(cs) > 0 && pod.Annotations["boot"] == boot {
		started = cs[0].State.Running.StartedAt
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "boot", boot)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
	}}
	status, since := corev1.ConditionFalse, now
	if ready {
		status = corev1.ConditionTrue
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == status {
			since = c.LastTransitionTime
		}
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: since}}
	pod.ResourceVersion = ""
	body, err := json.Marshal(pod)
	if err != nil {
		panic(err)
	}
	w.send(api.Request{User: "kubelet", Verb: "update", Kind: api.Pods, Namespace: pod.Namespace, Name: pod.Name,
		Sub: "status", Body: body})
}

func (w *World) doRule(s *script.Step) {
	name := ruleName(s.Rule)
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
	w.Model.RuleWritten(document(w.server.Get(api.Rules, name)))
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/replica"
	"github.com/nodegate/nodegate/test/simulation/script"
)

// refresh starts a pod's container again if the node has rebooted since, and ends pods that are terminating.
func (w *World) refresh(n, p int) {
	o := w.server.Get(api.Pods, namespace+"/"+podName(&script.Step{Node: n, Pod: p}))
	if o == nil {
		return
	}
	pod := o.Meta.(*corev1.Pod)
	if w.silent(n) {
		return
	}
	if pod.DeletionTimestamp != nil {
		w.send(api.Request{User: "kubelet", Verb: "delete", Kind: api.Pods, Namespace: pod.Namespace, Name: pod.Name,
			Grace: new(int64)})
		return
	}
	if pod.Annotations["boot"] == fmt.Sprint(w.boots[n]) || len(pod.Status.ContainerStatuses) == 0 {
		return
	}
	w.runPod(n, pod, pod.Status.ContainerStatuses[0].Ready)
}

func (w *World) doPod(s *script.Step) {
	switch s.Do {
	case "pod.create":
		if w.server.Get(api.Nodes, nodeName(s.Node)) == nil {
			return
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName(s),
			Labels: map[string]string{"app": s.Value}}}
		if s.Of == "protected" {
			pod.Labels[protectedLabel] = "true"
		}
		pod.Spec.NodeName = nodeName(s.Node)
		if s.Pod > 1 {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(30))}}
		}
		if s.Of == "tolerant" { // as those of DaemonSets, which nothing evicts
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "web", UID: "web", Controller: new(true)}}
		}
		pod.Spec.Containers = []corev1.Container{{Name: "main", ReadinessProbe: &corev1.Probe{}}}
		if s.Of == "probeless" {
			pod.Spec.Containers[0].ReadinessProbe = nil
		}
		if s.N > 0 { // as the DaemonSet controller creates pods
			pod.Spec.NodeName, pod.Spec.Affinity = "", affinity(nodeName(s.Node))
		}
		known := w.script.Webhooks && w.current() && w.server.Get(api.Pods, namespace+"/"+pod.Name) == nil
		w.send(api.Request{User: "scheduler", Verb: "create", Kind: api.Pods, Namespace: namespace, Name: pod.Name,
			Object: pod})
		if s.N > 0 {
			known = w.bind(pod, nodeName(s.Node)) && known
		}
		if known {
			w.Model.Bound(nodeName(s.Node), w.server.Get(api.Pods, namespace+"/"+pod.Name) != nil, w.present())
		}
	case "pod.ready":
		if o := w.server.Get(api.Pods, namespace+"/"+podName(s)); o != nil {
			w.runPod(s.Node, o.Meta.(*corev1.Pod), s.Value == "true")
		}
	case "pod.annotate":
		if o := w.server.Get(api.Pods, namespace+"/"+podName(s)); o != nil {
			pod := o.Meta.(*corev1.Pod).DeepCopy()
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "example.com/ready", s.Value)
			w.send(api.Request{User: "reporter", Verb: "update", Kind: api.Pods, Namespace: namespace, Name: pod.Name,
				Object: pod})
		}
	case "pod.delete":
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.Pods, Namespace: namespace, Name: podName(s),
			Grace: new(int64)})
	}
}

// affinity lets a pod run on one node only.
func affinity(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField,
				Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}},
		}},
	}}
}

// bind gives a pod a node, as the scheduler does, or deletes it if that is refused. It reports whether the
// webhook could read the pod.
func (w *World) bind(pod *corev1.Pod, node string) bool {
	o := w.server.Get(api.Pods, namespace+"/"+pod.Name)
	if o == nil || o.Meta.(*corev1.Pod).Spec.NodeName != "" {
		return false
	}
	readable := !slices.ContainsFunc(w.replicas, func(r *replica.Replica) bool { return r.Unread > 0 })
	bound := o.Meta.(*corev1.Pod).DeepCopy()
	bound.Spec.NodeName, bound.ResourceVersion = node, ""
	if err := w.review("/validate-bindings", account("scheduler", ""), "binding", nil, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node}}); err != nil {
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.Pods, Namespace: namespace, Name: pod.Name})
		return readable
	}
	w.send(api.Request{User: "scheduler", Verb: "update", Kind: api.Pods, Namespace: namespace, Name: pod.Name,
		Object: bound})
	return readable
}

// podStatus writes a pod's status.
func (w *World) podStatus(old *corev1.Pod, user string, edit func(*corev1.Pod)) {
	pod := old.DeepCopy()
	edit(pod)
	pod.ResourceVersion = ""
	w.send(api.Request{User: user, Verb: "update", Kind: api.Pods, Namespace: pod.Namespace, Name: pod.Name,
		Sub: "status", Object: pod})
}

// runPod reports a pod, as kubelet does. A container starts when the node's boot is another than before.
func (w *World) runPod(n int, old *corev1.Pod, ready bool) {
	if !w.silent(n) {
		w.podStatus(old, "kubelet", func(pod *corev1.Pod) { w.started(n, pod, ready) })
	}
}

func (w *World) started(n int, pod *corev1.Pod, ready bool) {
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
	pod.Status.Conditions = append(without(pod.Status.Conditions, corev1.PodReady), corev1.PodCondition{
		Type: corev1.PodReady, Status: status, LastTransitionTime: since})
}

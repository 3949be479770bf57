// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/script"
)

// renewEvery is how often kubelet renews the lease of its node. After grace without that, the node controller finds the
// node lost.
const renewEvery, grace = 10 * time.Second, 40 * time.Second

// doLink cuts or repairs the link of a node, deletes the object of the kept endpoints, or lets time pass.
func (w *World) doLink(s *script.Step) {
	switch {
	case s.Do == "live":
		w.live(time.Duration(s.N) * time.Second)
	case s.Do == "kept.delete":
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.KeptEndpoints, Name: listName})
		w.Model.Disturbed()
	case w.server.Get(api.Nodes, nodeName(s.Node)) == nil:
	case s.Do == "link.cut":
		w.link(s.Node, true)
	default:
		w.lose(s.Node, false)
	}
}

// link notes that the link of a node is cut, or whole.
func (w *World) link(n int, cut bool) {
	if w.silent(n) == cut {
		return
	}
	if delete(w.cut, n); cut {
		w.cut[n] = w.now
	}
	w.Model.Link(nodeName(n), cut)
}

// silent reports whether nothing that kubelet writes arrives.
func (w *World) silent(n int) bool {
	_, cut := w.cut[n]
	return cut
}

// renewed is when the lease of a node was renewed last, by the API server's clock.
func (w *World) renewed(n int) time.Time {
	last, cut := w.cut[n]
	if !cut {
		last = w.now
	}
	phase := start.Add(time.Duration(n)*1700*time.Millisecond - 2*renewEvery)
	return last.Add(-(last.Sub(phase) % renewEvery)).Truncate(time.Second)
}

// leases are the leases of all nodes as they are now; the answer arrives later.
func (w *World) leases(takes time.Duration) []coordinationv1.Lease {
	var out []coordinationv1.Lease
	for n := 1; n <= script.MaxNodes; n++ {
		if w.server.Get(api.Nodes, nodeName(n)) == nil {
			continue
		}
		at := w.renewed(n)
		lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease,
			Name: nodeName(n), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: new(metav1.NewTime(at))}}}}
		lease.Spec.RenewTime = new(metav1.NewMicroTime(w.clock(n).Add(at.Sub(w.now)))) // by the node's clock
		lease.Spec.LeaseDurationSeconds = new(int32(40))
		out = append(out, lease)
	}
	if takes > 0 {
		w.advance(w.now.Add(takes))
		w.Model.Slowed()
	}
	return out
}

// nextLost is the node that the node controller finds lost next, and when; 0, if there is none.
func (w *World) nextLost() (node int, at time.Time) {
	for n := 1; n <= script.MaxNodes && len(w.cut) > 0; n++ {
		if !w.silent(n) || w.lost[n] || w.server.Get(api.Nodes, nodeName(n)) == nil {
			continue
		}
		found := w.renewed(n).Add(grace + time.Duration(1+n*3%10)*time.Second)
		if node == 0 || found.Before(at) {
			node, at = n, found
		}
	}
	return node, at
}

// advance lets time pass. The node controller finds nodes lost in time.
func (w *World) advance(to time.Time) {
	for n, at := w.nextLost(); n > 0 && !at.After(to); n, at = w.nextLost() {
		if at.After(w.now) {
			w.now = at
		}
		w.lose(n, true)
		w.observe("node.lost")
	}
	if to.After(w.now) {
		w.now = to
	}
}

// live lets a time pass in which everything happens when it is due.
func (w *World) live(d time.Duration) {
	end := w.now.Add(d)
	for turn := 0; turn < maxTurns && w.Model.Failure == ""; turn++ {
		w.calm()
		w.evict()
		w.observe("pass")
		w.told = w.server.Version()
		if !w.now.Before(end) {
			return
		}
		next := end
		_, lost := w.nextLost()
		for _, at := range []time.Time{w.next(), lost} {
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if !next.After(w.now) {
			next = w.now.Add(time.Second)
		}
		w.advance(next)
	}
}

// markPods lets the node controller mark the pods of a node not ready that it has found lost: it does that once.
// Kubelet reports its pods again.
func (w *World) markPods(n int, lost bool) {
	pods, _ := w.server.List(api.Pods)
	for _, o := range pods {
		pod := o.Meta.(*corev1.Pod)
		switch {
		case pod.Spec.NodeName != nodeName(n) || len(pod.Status.ContainerStatuses) == 0:
		case !lost:
			w.runPod(n, pod, pod.Status.ContainerStatuses[0].Ready)
		default:
			w.podStatus(pod, "node-controller", func(p *corev1.Pod) {
				for i := range p.Status.Conditions {
					if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
						c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(w.now.UTC().Truncate(time.Second))
					}
				}
			})
		}
	}
}

// keepReady runs the policy that keeps pods ready, and lets the model judge what becomes of a write of a pod's status.
func (w *World) keepReady(r *api.Request, before, pod *corev1.Pod) error {
	sent := &api.Object{Kind: api.Pods, Meta: pod.DeepCopy()}
	w.told = max(w.told, w.server.Version()-int64(w.script.Lag))
	if err := w.definitions.Endpoints.Admit(w.server, w.told, account(r.User, pod.Spec.NodeName), "status", before,
		pod); err != nil {
		return err
	}
	w.Model.PodWritten(r.User == "node-controller", &api.Object{Kind: api.Pods, Meta: before}, sent,
		&api.Object{Kind: api.Pods, Meta: pod.DeepCopy()})
	return nil
}

// disturbs tells the model of steps that may change what rules do about endpoints.
func (w *World) disturbs(do string) {
	switch group, _, _ := strings.Cut(do, "."); group {
	case "rule", "crd", "claim", "upgrade", "evidence", "list":
	case "node":
		switch do {
		case "node.report", "node.beat", "node.lost", "node.back", "node.resource", "node.clock", "node.rack", "node.zone",
			"node.driver", "node.devices", "node.cordon", "node.taint", "node.untaint":
			return
		}
	default:
		return
	}
	if w.script.Endpoints {
		w.Model.Disturbed()
	}
}

// endsValidly reports whether a rule's spec says when it times out, if it does.
func endsValidly(spec map[string]any) bool {
	timeout, limited := spec["timeout"].(map[string]any)
	return !limited || timeout["seconds"] != nil || timeout["appearSeconds"] != nil
}

// keepsValidly reports whether a rule's spec is one that may keep endpoints, if it does.
func keepsValidly(spec map[string]any) bool {
	guard, _ := spec["evictionGuard"].(map[string]any)
	endpoints, keeps := guard["endpoints"].(map[string]any)
	if !keeps {
		return true
	}
	ready := false
	conditions, _ := spec["conditions"].([]any)
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		ready = ready || c["type"] == "Ready" && c["requiredStatus"] == "True"
	}
	hold, given := endpoints["maxHoldSeconds"].(float64)
	most, limited := guard["maxHoldSeconds"].(float64)
	if !limited {
		most = 1800
	}
	return ready && spec["conditionPolicy"] != "anyOf" && (!given || hold <= most)
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

var conditionTypes = []string{ours + "c-0", ours + "c-1", ours + "c-2", ours + "c-3"}

const (
	missing = "" // a condition that is not there
	// maxAge is the age that rules allow evidence; what is old is much older, so that nothing ages in the meantime.
	maxAge = 600
	old    = time.Hour
)

// nodeActor does what happens to nodes, except to their foreign taints. There is one of it at a time.
type nodeActor struct {
	w *model
	// slots is how many nodes there are to be.
	slots int
}

func (a *nodeActor) act(ctx context.Context, rng *rand.Rand) {
	s := a.w.slots[rng.IntN(a.slots)]
	if !s.there {
		a.create(ctx, rng, s)
		return
	}
	switch n := rng.IntN(100); {
	case n < 50:
		a.report(ctx, s, a.randomReport(rng))
	case n < 58:
		a.all(ctx, rng)
	case n < 66:
		a.report(ctx, s, a.heartbeat(rng, s))
	case n < 74:
		a.relabel(ctx, rng, s)
	case n < 80:
		a.remove(ctx, s)
		if chance(rng, 70) {
			a.create(ctx, rng, s)
		}
	case n < 86:
		a.reboot(ctx, rng, s)
	case n < 90:
		a.override(ctx, rng, s)
	case n < 94:
		a.cordon(ctx, rng, s)
	default:
		a.meddle(ctx, rng, s)
	}
	pause(rng, 2*time.Millisecond, 20*time.Millisecond)
}

// settle makes the number of nodes what it is to be.
func (a *nodeActor) settle(ctx context.Context, rng *rand.Rand) {
	for i, s := range a.w.slots {
		switch {
		case i >= a.slots && s.there:
			a.remove(ctx, s)
		case i < a.slots && !s.there:
			a.create(ctx, rng, s)
		}
	}
}

func (a *nodeActor) create(ctx context.Context, rng *rand.Rand, s *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := cluster.NodeOptions{Unmanaged: true, Images: -1, Labels: map[string]string{}}
	if s.steady {
		o.Labels[steadyLabel] = "yes"
	}
	if pool := oneOf(rng, "a", "b", "c", ""); pool != "" {
		o.Labels[poolLabel] = pool
	}
	for range leastForeign {
		o.Taints = append(o.Taints, a.w.newForeign(rng))
	}
	if chance(rng, 30) { // as kubelet's --register-with-taints does
		t := corev1.Taint{Key: oneOf(rng, ruleKeys...), Value: oneOf(rng, ruleValues...), Effect: oneOf(rng, ruleEffects...)}
		o.Taints = slices.Insert(o.Taints, rng.IntN(len(o.Taints)+1), t)
	}
	node := cluster.NewNode(s.name, o)
	s.boots++
	node.Status.NodeInfo.BootID = fmt.Sprintf("%s-%d", s.name, s.boots)
	s.reported = map[string]string{}
	for _, c := range a.conditions(s, a.randomReport(rng)) {
		if c.Status != missing {
			node.Status.Conditions = append(node.Status.Conditions, c)
		}
	}
	if err := a.w.Client.Create(ctx, node); err != nil {
		a.w.fault("creating node %s: %v", s.name, err)
		return
	}
	s.foreign, s.there = foreignOf(node.Spec.Taints), true // with what admission has added
	a.w.note("created node %s: pool %q, %v", s.name, o.Labels[poolLabel], s.reported)
}

func (a *nodeActor) remove(ctx context.Context, s *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	if err := a.w.Client.Delete(ctx, node); err != nil {
		a.w.fault("deleting node %s: %v", s.name, err)
		return
	}
	s.there = false
	a.w.note("deleted node %s", s.name)
}

// report is what is reported of some conditions.
type report struct {
	statuses map[string]string
	aged     map[string]bool // reported long ago, for the last time
	boot     string          // the boot ID that is reported with it
}

func (a *nodeActor) randomReport(rng *rand.Rand) report {
	r := report{statuses: map[string]string{}, aged: map[string]bool{}}
	for range 1 + rng.IntN(3) {
		c := oneOf(rng, conditionTypes...)
		r.statuses[c] = oneOf(rng, "True", "True", "True", "True", "False", "False", "Unknown", missing)
		r.aged[c] = chance(rng, 15)
	}
	return r
}

// heartbeat reports what has been reported once more.
func (a *nodeActor) heartbeat(rng *rand.Rand, s *slot) report {
	r := report{statuses: map[string]string{}, aged: map[string]bool{}}
	for c, status := range s.reported {
		if chance(rng, 60) {
			r.statuses[c] = status
		}
	}
	return r
}

// conditions are the node's conditions as a report has them.
func (a *nodeActor) conditions(s *slot, r report) []corev1.NodeCondition {
	now := time.Now()
	var out []corev1.NodeCondition
	for c, status := range r.statuses {
		before := s.reported[c]
		if status == missing && before == missing {
			continue
		}
		n := corev1.NodeCondition{
			Type: corev1.NodeConditionType(c), Status: corev1.ConditionStatus(status), Reason: "Test",
			LastHeartbeatTime: metav1.NewTime(now),
		}
		if r.aged[c] {
			n.LastHeartbeatTime = metav1.NewTime(now.Add(-old))
		}
		if status != before {
			n.LastTransitionTime = n.LastHeartbeatTime
		}
		s.reported[c] = status
		if status == missing {
			delete(s.reported, c)
		}
		out = append(out, n)
	}
	return out
}

// report writes a node's status, as kubelets and reporters do: a strategic merge patch of the conditions that are told.
func (a *nodeActor) report(ctx context.Context, s *slot, r report) {
	conditions := []map[string]any{}
	for _, c := range a.conditions(s, r) {
		if c.Status == missing {
			conditions = append(conditions, map[string]any{"type": c.Type, "$patch": "delete"})
			continue
		}
		m := map[string]any{"type": c.Type, "status": c.Status, "reason": c.Reason, "lastHeartbeatTime": c.LastHeartbeatTime}
		if !c.LastTransitionTime.IsZero() {
			m["lastTransitionTime"] = c.LastTransitionTime
		}
		conditions = append(conditions, m)
	}
	body := map[string]any{"conditions": conditions}
	if r.boot != "" {
		body["nodeInfo"] = map[string]any{"bootID": r.boot}
		body["conditions"] = append(conditions, map[string]any{"type": corev1.NodeReady, "lastHeartbeatTime": metav1.Now()})
	}
	a.patch(ctx, s, map[string]any{"status": body}, "status")
	a.w.note("node %s reports %v, aged %v, boot %q", s.name, r.statuses, r.aged, r.boot)
}

// all reports the same of all nodes: a rollout, or a broken reporter.
func (a *nodeActor) all(ctx context.Context, rng *rand.Rand) {
	c, status := oneOf(rng, conditionTypes...), oneOf(rng, "True", "True", "False")
	for _, s := range a.w.slots[:a.slots] {
		if s.there {
			a.report(ctx, s, report{statuses: map[string]string{c: status}})
		}
	}
}

func (a *nodeActor) reboot(ctx context.Context, rng *rand.Rand, s *slot) {
	r := report{statuses: map[string]string{}}
	if chance(rng, 50) {
		r = a.heartbeat(rng, s)
	}
	s.boots++
	r.boot = fmt.Sprintf("%s-%d", s.name, s.boots)
	a.report(ctx, s, r)
}

func (a *nodeActor) relabel(ctx context.Context, rng *rand.Rand, s *slot) {
	var pool any
	if p := oneOf(rng, "a", "b", "c", ""); p != "" {
		pool = p
	}
	a.patch(ctx, s, map[string]any{"metadata": map[string]any{"labels": map[string]any{poolLabel: pool}}})
	a.w.note("node %s goes to pool %v", s.name, pool)
}

func (a *nodeActor) override(ctx context.Context, rng *rand.Rand, s *slot) {
	var value any
	switch {
	case chance(rng, 30):
		value = "Release"
	case chance(rng, 30) && !s.steady:
		value = "Hold"
	}
	annotations := map[string]any{v1alpha1.OverrideAnnotation: value}
	a.patch(ctx, s, map[string]any{"metadata": map[string]any{"annotations": annotations}})
	a.w.note("node %s has override %v", s.name, value)
}

func (a *nodeActor) cordon(ctx context.Context, rng *rand.Rand, s *slot) {
	on := chance(rng, 50)
	if s.steady && !on {
		return
	}
	a.patch(ctx, s, map[string]any{"spec": map[string]any{"unschedulable": on}})
	a.w.note("node %s is cordoned: %v", s.name, on)
}

// meddle puts a rule's taint on a node by hand, or takes one off.
func (a *nodeActor) meddle(ctx context.Context, rng *rand.Rand, s *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 20 {
		node := &corev1.Node{}
		if err := a.w.Client.Get(ctx, client.ObjectKey{Name: s.name}, node); err != nil {
			a.w.fault("reading node %s: %v", s.name, err)
			return
		}
		at := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return !isForeign(t) })
		story := ""
		if at >= 0 && (s.steady || chance(rng, 50)) {
			story = "lost " + idOf(node.Spec.Taints[at])
			node.Spec.Taints = slices.Delete(node.Spec.Taints, at, at+1)
		} else if !s.steady {
			t := corev1.Taint{Key: oneOf(rng, ruleKeys...), Value: oneOf(rng, ruleValues...), Effect: oneOf(rng, ruleEffects...)}
			if has(node.Spec.Taints, t.Key, t.Effect) {
				return
			}
			story = "got " + idOf(t)
			node.Spec.Taints = slices.Insert(node.Spec.Taints, rng.IntN(len(node.Spec.Taints)+1), t)
		}
		if story == "" {
			return
		}
		err := a.w.Client.Update(ctx, node)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			a.w.fault("writing node %s: %v", s.name, err)
			return
		}
		a.w.note("node %s %s by hand", s.name, story)
		return
	}
}

func (a *nodeActor) patch(ctx context.Context, s *slot, patch any, subresource ...string) {
	raw, err := json.Marshal(patch)
	if err != nil {
		a.w.fault("%v", err)
		return
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	p := client.RawPatch(types.StrategicMergePatchType, raw)
	if len(subresource) > 0 {
		err = a.w.Client.SubResource(subresource[0]).Patch(ctx, node, p)
	} else {
		err = a.w.Client.Patch(ctx, node, p)
	}
	if err != nil {
		a.w.fault("patching node %s with %s: %v", s.name, raw, err)
	}
}

// idOf tells taints of a node apart.
func idOf(t corev1.Taint) string { return strings.TrimPrefix(t.Key, ours) + ":" + string(t.Effect) }

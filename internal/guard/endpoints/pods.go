// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
)

// lostAt returns the mark of a node that is not ready, or false if it is ready.
func lostAt(node *corev1.Node) (mark, bool) {
	m := mark{node: node.UID}
	c := condition.Find(node, string(corev1.NodeReady))
	if c != nil {
		m.lost = c.LastTransitionTime.UTC()
	}
	return m, c == nil || c.Status != corev1.ConditionTrue
}

// ended returns a rule by which the pods of a node are kept no longer, and no rule keeps them; nil if there is none.
func ended(object *endpointsv1alpha1.KeptEndpoints, node string) *endpointsv1alpha1.EndpointRule {
	var by *endpointsv1alpha1.EndpointRule
	for i := range object.Rules {
		state, known := object.Rules[i].Nodes[node]
		switch {
		case !known || state == guard.EndpointsMarked:
		case state == guard.EndpointsEnded:
			by = &object.Rules[i]
		default:
			return nil
		}
	}
	return by
}

// done returns a function that reports whether nothing is left to do for a node that is kept no longer: its pods were
// marked, or another rule keeps them.
func (k *Keeper) done(stored *endpointsv1alpha1.KeptEndpoints, nodes []*corev1.Node) func(string) bool {
	lost := map[string]mark{}
	for _, node := range nodes {
		if m, is := lostAt(node); is {
			lost[node.Name] = m
		}
	}
	return func(node string) bool {
		if ended(stored, node) == nil {
			return true
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		m, is := k.marked[node]
		return is && m == lost[node]
	}
}

// tell counts and announces what has been written, and enqueues the nodes whose pods are to be marked.
func (k *Keeper) tell(rules *ruleset.Set, before map[types.UID]*endpointsv1alpha1.EndpointRule,
	plans map[types.UID]guard.EndpointsPlan, written *endpointsv1alpha1.KeptEndpoints, nodes []*corev1.Node) {
	kept := map[types.UID]int{}
	causes := map[string]string{}
	for i := range written.Rules {
		r := &written.Rules[i]
		uid := types.UID(r.UID)
		kept[uid] = compare(before[uid], r, plans[uid], causes)
		for _, node := range plans[uid].Kept {
			k.Recorder.Eventf(node, nil, corev1.EventTypeWarning, reasonKept, actionKeep, "Pods of the node that are "+
				"ready stay so until %s, or until the node is ready: %d of %d nodes of rule %s do not renew their leases",
				r.Nodes[node.Name], plans[uid].Silent, plans[uid].Total, r.Name)
		}
	}
	ending, former := k.remember(kept, causes, written, nodes)
	for _, rule := range rules.All() {
		if hasEndpoints(rule) || former[rule.UID] > 0 {
			keptNodes.WithLabelValues(rule.Name).Set(float64(kept[rule.UID]))
		}
		if kept[rule.UID] != former[rule.UID] {
			k.Changed(rule.Name)
		}
	}
	k.Mark(ending...)
}

// compare returns on how many nodes a rule keeps pods, and adds why it keeps those of others no longer.
func compare(before, after *endpointsv1alpha1.EndpointRule, p guard.EndpointsPlan,
	causes map[string]string) (kept int) {
	for node, state := range after.Nodes {
		was, known := "", false
		if before != nil {
			was, known = before.Nodes[node]
		}
		switch {
		case state == guard.EndpointsEnded && known && was != state:
			causes[node] = cause(node, p)
		case state != guard.EndpointsArmed && state != guard.EndpointsEnded && state != guard.EndpointsMarked:
			kept++
		}
	}
	return kept
}

// remember keeps what was counted, and returns the nodes whose pods are to be marked, and what was counted before.
func (k *Keeper) remember(kept map[types.UID]int, causes map[string]string, written *endpointsv1alpha1.KeptEndpoints,
	nodes []*corev1.Node) (ending []string, former map[types.UID]int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	former, k.kept = k.kept, kept
	if k.causes == nil {
		k.causes, k.marked = map[string]string{}, map[string]mark{}
	}
	maps.Copy(k.causes, causes)
	for _, node := range nodes {
		m, lost := lostAt(node)
		if !lost || ended(written, node.Name) == nil {
			delete(k.marked, node.Name)
			delete(k.causes, node.Name)
		} else if k.marked[node.Name] != m {
			ending = append(ending, node.Name)
		}
	}
	return ending, former
}

// cause says why the pods of a node are kept no longer.
func cause(node string, p guard.EndpointsPlan) string {
	if p.Single.Has(node) {
		return fmt.Sprintf("this is no outage, %d of %d nodes do not renew their leases", p.Silent, p.Total)
	}
	return "the node was not ready again in time, or no rule keeps them ready any more"
}

// Pods returns the reconciler that marks the pods of a node not ready, as the node controller would have.
func (k *Keeper) Pods() reconcile.Reconciler { return reconcile.Func(k.markPods) }

func (k *Keeper) markPods(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := k.stored()
	if object == nil {
		return reconcile.Result{RequeueAfter: least}, nil
	}
	by := ended(object, req.Name)
	if by == nil {
		k.setProblem(marking+req.Name, "", "")
		return reconcile.Result{}, nil
	}
	err := k.markPodsOf(ctx, req.NamespacedName, by.Name)
	return reconcile.Result{}, k.failed(marking+req.Name, types.UID(by.UID), "pods of node "+req.Name+" stay ready", err)
}

func (k *Keeper) markPodsOf(ctx context.Context, name client.ObjectKey, rule string) error {
	node := &corev1.Node{}
	if err := k.Live.Get(ctx, name, node); err != nil { // the cache may be behind
		return client.IgnoreNotFound(err)
	}
	m, lost := lostAt(node)
	if !lost {
		return nil // kubelet reports its pods
	}
	pods, err := sources.AllPods(ctx, k.Live, node.Name)
	if err != nil {
		return err
	}
	if err := k.Lease.Held(ctx, k.Live); err != nil {
		return err // a successor may have found an outage
	}
	n := 0
	var errs []error
	for i := range pods {
		if !guard.KeptReady(node, &pods[i]) {
			continue
		}
		if err := k.mark(ctx, &pods[i]); client.IgnoreNotFound(err) != nil {
			errs = append(errs, err)
			continue
		}
		n++
	}
	k.mu.Lock()
	why := k.causes[node.Name]
	if len(errs) == 0 {
		k.marked[node.Name] = m
	}
	k.mu.Unlock()
	if n > 0 {
		markedPods.WithLabelValues(rule).Add(float64(n))
		log.FromContext(ctx).Info("Marked pods not ready", "node", node.Name, "rule", rule, "pods", n)
		if why == "" {
			why = "no rule keeps them ready"
		}
		k.Recorder.Eventf(node, nil, corev1.EventTypeWarning, reasonEnded, actionEnd,
			"Marked %d pods of the node not ready: %s", n, why)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	k.Look() // the next state is Marked
	return nil
}

// mark marks a pod not ready, unless another client has changed it meanwhile, as a kubelet that is back.
func (k *Keeper) mark(ctx context.Context, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"conditions": []corev1.PodCondition{NotReady(k.Clock.Now())}},
	})
	if err != nil {
		return err
	}
	err = k.Live.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking pod %s/%s not ready: %w", pod.Namespace, pod.Name, err)
	}
	return err
}

// NotReady returns the condition of a pod that is not ready, as the node controller sets it.
func NotReady(now time.Time) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse,
		LastTransitionTime: metav1.NewTime(now)}
}

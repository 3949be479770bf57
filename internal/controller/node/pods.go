// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
)

// podsRetry is the delay before the pods of a rebooted node are listed again after a list has failed.
const podsRetry = 30 * time.Second

// livePods lists the pods of a namespace on the node of a pass from the API server, without those that have ended: the
// watch does not have them, either. While that fails, nothing follows from them, and the node is reconciled again.
func (r *Reconciler) livePods(ctx context.Context, p *pass, namespace string, selector labels.Selector) (
	pods []*corev1.Pod, known bool) {
	found, err := sources.ListPods(ctx, r.Live, p.node.Name, client.InNamespace(namespace),
		client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the pods of a node that has rebooted, retrying later", "namespace",
			namespace)
		return nil, false
	}
	pods = make([]*corev1.Pod, len(found))
	for i := range found {
		pods[i] = &found[i]
	}
	return pods, true
}

// unread reports whether a rule that is not frozen has evidence on the node that could not be read. The nodes of a
// frozen rule, which may lack the permission, are reconciled again when it is in force.
func unread(d state.Decision) bool { //nolint:gocritic // called for each element of a slice
	return d.Rule.Mode != ruleset.Frozen && slices.ContainsFunc(d.Verdict.Results, func(r evidence.Result) bool {
		return r.Cause == condition.CauseUnread && r.Type == "" // a condition is written when more is known
	})
}

// runs reports whether a pod that counts runs on the node of a pass, if the pods can be listed. It lists them once.
func (r *Reconciler) runs(ctx context.Context, p *pass, counts func(*corev1.Pod) bool) (runs, known bool) {
	if !p.listed {
		p.pods, p.errPods = sources.ListPods(ctx, r.Live, p.node.Name)
		p.listed = true
	}
	if p.errPods != nil {
		log.FromContext(ctx).Error(p.errPods, "Cannot find out whether pods run on the node, retrying later")
		return false, false
	}
	for i := range p.pods {
		if counts(&p.pods[i]) {
			return true, true
		}
	}
	return false, true
}

// busy reports whether pods run on a node that are neither part of it nor of the system, if the pods can be listed.
func (r *Reconciler) busy(ctx context.Context, p *pass) (busy, known bool) {
	return r.runs(ctx, p, sources.Busy)
}

// occupied reports whether a pod runs on a node that a taint would evict or refuse; without a taint, whether any pod
// does that is not part of the node.
func (r *Reconciler) occupied(ctx context.Context, p *pass, taint *corev1.Taint) (occupied, known bool) {
	return r.runs(ctx, p, sources.Occupies(taint))
}

// Escapes counts pods that were bound to a node before it was tainted, although admission should have tainted it.
type Escapes struct {
	// Live reads pods past any cache, once for each such node.
	Live client.Reader
	// Expected reports whether nodes are to be tainted at creation at present.
	Expected func() bool

	queue chan escape
}

// escape is a node that the controller had to taint itself.
type escape struct {
	node  string
	rule  string
	taint corev1.Taint
}

// escapesBacklog is how many nodes wait to be looked at; beyond that the count is too low, which is better than to ask
// the API server about thousands of nodes while it has other things to do.
const escapesBacklog = 1000

// NewEscapes makes a counter that looks at nodes in the background, one after another. It runs where the controller
// does.
func NewEscapes(live client.Reader, expected func() bool) *Escapes {
	return &Escapes{Live: live, Expected: expected, queue: make(chan escape, escapesBacklog)}
}

// Start implements manager.Runnable.
func (e *Escapes) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case next := <-e.queue:
			if err := e.count(ctx, next); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "Cannot count the pods that were bound before the taint", "node", next.node)
			}
		}
	}
}

// added enqueues a node that the controller has tainted itself. Only a node that was never in service counts: the
// request that made it match should have tainted it.
func (e *Escapes) added(c *taints.Change, node string) {
	if e == nil || c.Operation != taints.Added || c.Rule.Spec.NodeAdmission == v1alpha1.NodeAdmissionNone ||
		c.Decision.Was.HasRecord || c.Decision.Was.Existing || c.Decision.Was.Released || !e.Expected() {
		return
	}
	select {
	case e.queue <- escape{node: node, rule: c.Rule.Name, taint: c.Taint}:
	default:
	}
}

func (e *Escapes) count(ctx context.Context, of escape) error {
	pods, err := sources.ListPods(ctx, e.Live, of.node)
	if err != nil {
		return err
	}
	for i := range pods {
		if !sources.PartOfNode(&pods[i]) && evidence.Toleration(pods[i].Spec.Tolerations, &of.taint) == nil {
			escapedPods.WithLabelValues(of.rule).Inc()
		}
	}
	return nil
}

// policyClaims are the claims that the admission policy has made, as far as this process has seen them: it counts each
// once.
type policyClaims struct {
	mu   sync.Mutex
	seen map[string]claimedNode // by the node's name
}

// claimedNode are the rules that claimed a node.
type claimedNode struct {
	uid   types.UID
	rules sets.Set[types.UID]
}

// first reports whether a claim is seen for the first time. It forgets the claims of rules that are gone.
func (b *policyClaims) first(node *corev1.Node, rule *ruleset.Rule, set *ruleset.Set) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.seen[node.Name]
	if known.uid != node.UID {
		known = claimedNode{node.UID, sets.New[types.UID]()}
	}
	if known.rules.Has(rule.UID) {
		return false
	}
	for uid := range known.rules {
		if set.Rule(uid) == nil {
			known.rules.Delete(uid)
		}
	}
	known.rules.Insert(rule.UID)
	if b.seen == nil {
		b.seen = map[string]claimedNode{}
	}
	b.seen[node.Name] = known
	return true
}

func (b *policyClaims) forget(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.seen, node)
}

// countPolicyClaims counts the claims on a node that the admission policy has made.
func (r *Reconciler) countPolicyClaims(p *pass) {
	if r.PolicyClaim == nil {
		return
	}
	for i := range p.decisions {
		d := &p.decisions[i]
		if d.Was.Claimed && d.Was.Record.Since.IsZero() && taints.AdmittedByPolicy(d.Rule, p.node) &&
			r.policyClaims.first(p.node, d.Rule, p.set) {
			r.PolicyClaim()
		}
	}
}

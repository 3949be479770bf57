// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/replace"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/internal/taints"
)

// # How a node is handed over for replacement
//
//	        timeout ends        intention in             annotation set, or
//	┌──────┐           ┌───────┐ the rule's  ┌────────┐  NodeClaim deleted  ┌─────────────┐
//	│ Held │ ────────► │Expired│ ──────────► │Intended│ ──────────────────► │ Handed over │
//	└──────┘           └───────┘   status    └────────┘                     └─────────────┘
//	   ▲                                                                           │
//	   └───────────────────────────────────────────────────────────────────────────┘
//	        released, overridden or in maintenance: the node controller removes the annotation
//
// The limits count intentions. The write of an intention names the resource version of the rule, so that of two leaders
// one succeeds, and an edit of the rule is never overlooked. If the operator is killed after that write, or the outcome
// of the act is unknown, the same node may be handed over later: its intention is written again with the new time, and
// counts once. If the API server refuses the act, the intention is taken out again.
//
// Each act names the resource version of what it changes, as it was when the node was found to be idle and not ready.

const (
	// replaceInterval is the least time between two searches for a node to hand over.
	replaceInterval = 30 * time.Second
	// replaceTries bounds how many nodes a search reads from the API server, with their pods.
	replaceTries = 5
)

// Handover hands nodes over for replacement.
type Handover struct {
	// Client reads from a cache that has seen this process's own writes, and writes.
	Client client.Client
	// Live reads and writes past the cache: the first write through Client starts a watch of all objects of the kind.
	Live client.Client
	// Fleet has the state of all nodes.
	Fleet *fleet.Fleet
	// Expired reports whether a node waits for its replacement under a rule by the evidence that there is now.
	Expired func(context.Context, *corev1.Node, *ruleset.Rule) bool
	// Recorder records events on nodes.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock

	mu       sync.Mutex
	searches map[string]*search // by the name of the rule
}

// search returns the search of a rule.
func (h *Handover) search(rule *v1alpha1.NodeReadinessRule) *search {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.searches == nil {
		h.searches = map[string]*search{}
	}
	s := h.searches[rule.Name]
	if s == nil || s.rule != rule.UID { // a rule may be deleted and created again between two reconciliations
		s = &search{rule: rule.UID}
		h.searches[rule.Name] = s
	}
	return s
}

// Forget drops what is known of a deleted rule.
func (h *Handover) Forget(rule string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.searches, rule)
}

// search is the state of the search for nodes to hand over.
type search struct {
	rule types.UID
	// next is when to search again, after the last node that was read.
	next  time.Time
	after string
	// problem says why a node could not be handed over, and failed is its name. The next search begins with this node:
	// otherwise each search would report another one, and write the status.
	problem, failed string
}

// order returns the names of nodes in the order in which they are tried.
func (s *search) order(names []string) []string {
	from, found := slices.BinarySearch(names, s.after)
	if found {
		from++
	}
	order := slices.Concat(names[from:], names[:from])
	if i := slices.Index(order, s.failed); i > 0 {
		order = slices.Insert(slices.Delete(order, i, i+1), 0, s.failed)
	}
	return order
}

// Next hands over at most one node that never became ready, if the rule replaces nodes and the state of its nodes is
// known. It returns when to look again, or 0 if nothing changes by the passage of time.
func (h *Handover) Next(ctx context.Context, rule *v1alpha1.NodeReadinessRule,
	compiled *ruleset.Rule, known bool) time.Duration {
	if !compiled.Spec.Timeout.Replaces() {
		replacementsExhausted.DeleteLabelValues(rule.Name)
		return 0
	}
	if !known {
		return 0
	}
	now := h.Clock.Now()
	allowance := replace.AllowanceOf(compiled.Spec.Timeout.Replace, rule.Status.Replacements, rule.Generation, "", now)
	exhausted := 0.0
	if allowance.Exhausted {
		exhausted = 1
	}
	replacementsExhausted.WithLabelValues(rule.Name).Set(exhausted)
	if compiled.Mode != ruleset.Enforced && compiled.Mode != ruleset.DryRun {
		return 0
	}
	s := h.search(rule)
	if wait := s.next.Sub(now); wait > 0 && wait <= replaceInterval {
		return wait
	}
	before := s.problem
	tried, err := h.tryExpired(ctx, rule, compiled, s)
	switch {
	case apierrors.IsConflict(err): // another client has written the rule or the node: the next search looks again
	case err != nil:
		s.problem = err.Error()
	case tried, !slices.Contains(h.Fleet.Expired(rule.UID), s.failed): // else the limits allow no node, and it stays
		s.problem = ""
	}
	if s.problem != before && err != nil {
		log.FromContext(ctx).Error(err, "Cannot hand over a node, trying again later")
	}
	switch {
	case tried:
		s.next = now.Add(replaceInterval)
		return replaceInterval
	case len(h.Fleet.Expired(rule.UID)) == 0:
		return 0
	case allowance.Next.After(now) && !allowance.Exhausted:
		return allowance.Next.Sub(now)
	}
	return replaceInterval // the mark of a node may be removed meanwhile
}

// Problem returns why a node of a rule could not be handed over, or an empty text.
func (h *Handover) Problem(rule *v1alpha1.NodeReadinessRule) string { return h.search(rule).problem }

// tryExpired tries to hand over one of the nodes that wait for it, going on where the last search ended. It reports
// whether it has read any.
func (h *Handover) tryExpired(ctx context.Context, rule *v1alpha1.NodeReadinessRule, compiled *ruleset.Rule,
	s *search) (tried bool, err error) {
	now := h.Clock.Now()
	tries, failed := 0, s.failed
	for _, name := range s.order(h.Fleet.Expired(rule.UID)) {
		if tries == replaceTries {
			break
		}
		node := &corev1.Node{}
		if err := h.Client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
			continue // it is gone
		}
		uid := node.UID
		if handed(compiled, node) { // a remediator has removed the annotation: marking the node again counts
			uid = ""
		}
		a := replace.AllowanceOf(compiled.Spec.Timeout.Replace, rule.Status.Replacements, rule.Generation, uid, now)
		if marked(compiled, node) || a.Exhausted || a.Next.After(now) {
			continue
		}
		if tries++; name != failed {
			s.after = name
		}
		switch done, e := h.handOver(ctx, rule, compiled, node); {
		case done || apierrors.IsConflict(e):
			return true, cmp.Or(e, err)
		case err == nil && e != nil:
			s.failed, err = name, e
		}
	}
	return tries > 0, err
}

// handOver hands a node over if it runs only pods that are part of it, and its evidence is still missing. It reads the
// node and its pods from the API server, and stops if the cached node is not the same.
func (h *Handover) handOver(ctx context.Context, rule *v1alpha1.NodeReadinessRule, compiled *ruleset.Rule,
	cached *corev1.Node) (done bool, err error) {
	node := &corev1.Node{}
	if err := h.Live.Get(ctx, client.ObjectKeyFromObject(cached), node); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if node.UID != cached.UID || node.ResourceVersion != cached.ResourceVersion ||
		!replace.Replaceable(compiled, node, h.Clock.Now()) {
		return false, nil
	}
	pods, err := sources.ListPods(ctx, h.Live, node.Name)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !sources.PartOfNode(&p) }) {
		return false, nil
	}
	var act func() error
	how := "set the annotation that marks it"
	method := compiled.Spec.Timeout.Replace.MethodOrDefault()
	if method == v1alpha1.ReplaceMethodNodeClaim {
		claim, err := h.nodeClaim(ctx, node)
		if err != nil || claim.GetDeletionTimestamp() != nil {
			return false, err
		}
		act = func() error { return h.deleteClaim(ctx, claim) }
		how = "deleted its NodeClaim " + claim.GetName()
	} else {
		marks := marksOf(compiled, node)
		if !taints.Fit(node.Annotations, marks) {
			return false, fmt.Errorf("marking node %q: its annotations are full", node.Name)
		}
		act = func() error { return h.mark(ctx, node, marks) }
	}
	if !h.Expired(ctx, node, compiled) {
		return false, nil
	}
	before := rule.Status.Replacements
	if err := h.intend(ctx, rule, node, method, handed(compiled, node)); err != nil {
		return false, err
	}
	if err := act(); err != nil {
		if refused(err) {
			rule.Status.Replacements = before
			if e := h.Client.Status().Update(ctx, rule); e != nil {
				log.FromContext(ctx).Error(e, "A node counts as handed over, although that was refused", "node", node.Name)
			}
			fleet.StatusWrites.Inc()
		}
		if !apierrors.IsConflict(err) {
			replacements.WithLabelValues(rule.Name, string(method), "failed").Inc()
		}
		return false, err
	}
	replacements.WithLabelValues(rule.Name, string(method), "done").Inc()
	log.FromContext(ctx).Info("Handed over a node for replacement", "node", node.Name, "method", method)
	h.Recorder.Eventf(node, rule, corev1.EventTypeWarning, reasonHandedOver, actionReplace,
		"Rule %s hands the node over for replacement, because it was not ready in time: %s", rule.Name, how)
	return true, nil
}

// refused reports whether the API server has certainly not done what it was asked for. After a timeout that is unknown.
func refused(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// intend writes to the rule's status that a node is about to be handed over. This comes before the act. An intention of
// which the outcome is unknown is replaced; if the node was handed over, this is another one.
func (h *Handover) intend(ctx context.Context, rule *v1alpha1.NodeReadinessRule, node *corev1.Node,
	method v1alpha1.ReplaceMethod, again bool) error {
	s := rule.Status.Replacements.DeepCopy()
	if s == nil {
		s = &v1alpha1.ReplacementStatus{}
	}
	if i := replace.Replaced(s, node.UID); i >= 0 && !again {
		s.Last = slices.Delete(s.Last, i, i+1)
	}
	s.Last = append(s.Last, v1alpha1.Replacement{NodeName: node.Name, NodeUID: node.UID, Method: method,
		HandoverTime: metav1.NewTime(h.Clock.Now().Truncate(time.Second)), Generation: rule.Generation})
	s.Last = s.Last[max(0, len(s.Last)-v1alpha1.MaxReplacementsListed):]
	rule.Status.Replacements = s
	if err := h.Client.Status().Update(ctx, rule); err != nil {
		return fmt.Errorf("writing that node %q is about to be handed over to the status of rule %q: %w", node.Name,
			rule.Name, err)
	}
	fleet.StatusWrites.Inc()
	if replace.Replaced(rule.Status.Replacements, node.UID) < 0 {
		return fmt.Errorf("the API server does not keep status.replacements of rule %q: update the "+
			"CustomResourceDefinition", rule.Name)
	}
	return nil
}

// marked reports whether the node has the annotation that marks nodes of a rule.
func marked(compiled *ruleset.Rule, node *corev1.Node) bool {
	a := compiled.Spec.Timeout.Replace.Annotation
	return a != nil && node.Annotations[a.Key] == a.ValueOrDefault()
}

// handed reports whether the rule has marked the node, now or before.
func handed(compiled *ruleset.Rule, node *corev1.Node) bool {
	_, value, _ := nodeview.RecordOn(compiled, node)
	record, _ := nodeview.ReadRecord(value)
	return record.Handed
}

// marksOf returns the annotation that marks the node, and the rule's record, which names that annotation, so that the
// node controller removes it when the node does not qualify any more.
func marksOf(compiled *ruleset.Rule, node *corev1.Node) map[string]string {
	a := compiled.Spec.Timeout.Replace.Annotation
	_, value, _ := nodeview.RecordOn(compiled, node)
	record, _ := nodeview.ReadRecord(value)
	record.Mark, record.Handed = replace.MarkOf(compiled), true
	return map[string]string{a.Key: a.ValueOrDefault(), compiled.RecordKey(): record.Encode()}
}

// mark sets the annotations on the node, unless the node has changed since it was read.
func (h *Handover) mark(ctx context.Context, node *corev1.Node, marks map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID,
		"resourceVersion": node.ResourceVersion, "annotations": marks}})
	if err != nil {
		return err
	}
	written := &corev1.Node{}
	written.Name = node.Name
	if err := h.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("patching node %q: %w", node.Name, err)
	}
	return nil
}

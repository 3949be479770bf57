// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/replace/handover"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

const (
	// statusInterval is the least time between two status writes of one rule; the first one is at once.
	statusInterval = 2 * time.Second
	// statusRate and statusBurst bound the status writes of all rules together, per second. One with 50 nodes costs the
	// API server as much as the patches of nearly three nodes.
	statusRate, statusBurst = 2, 20
	// pendingPatience is how long the evidence of a rule may take to be read before the status reports it.
	pendingPatience = 15 * time.Second
	// conflictDelay is the delay before the next try after a conflict with another writer.
	conflictDelay = 100 * time.Millisecond
	// maxNames is the number of nodes that a message names.
	maxNames = 5
)

// Reconciler reconciles the finalizer and the status of rules.
type Reconciler struct {
	// Client reads from a cache that has seen this process's own writes, and writes.
	Client client.Client
	// Fleet has the state of all nodes.
	Fleet *fleet.Fleet
	// Handover hands nodes over for replacement.
	Handover *handover.Handover
	// Recorder records events on rules.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// GuardProblem returns why the eviction guard of a rule may not work, or nil.
	GuardProblem func(*ruleset.Rule) *guard.Problem
	// KeptEndpoints returns on how many nodes the pods stay ready because of a rule. It may be nil.
	KeptEndpoints func(*ruleset.Rule) int
	// Served finds what runs in the cluster for rules. It is nil if the condition Served is not reported.
	Served func(context.Context, ...*ruleset.Rule) (lint.Served, error)
	// AdmissionProblem returns why a rule in force does not taint nodes at admission, and whether that may be decided in a
	// moment. It may be nil.
	AdmissionProblem func(*ruleset.Rule) (problem string, undecided bool)
	// AdmittedByStatus reports whether the webhook taints nodes by the status of rules, because the rules for admission do
	// not exist. It may be nil.
	AdmittedByStatus func() bool
	// StateMetrics turns on the metrics of --enable-node-state-metrics.
	StateMetrics bool

	mu    sync.Mutex
	limit *rate.Limiter
	known map[string]*progress

	looking sync.Mutex
	looked  look
}

// progress is what a process remembers of a rule.
type progress struct {
	uid types.UID
	// passed reports whether every node was evaluated once, or the rule has waited for the others for long enough.
	passed bool
	// wrote is when its status was last written.
	wrote time.Time
	// pendingSince is when the rule began to wait for its evidence to be read. Zero: it does not wait.
	pendingSince time.Time
	// first is the wait for the first evaluation of all nodes, and cleanup that of a deleted rule for its nodes.
	first, cleanup waited
	// massFailures counts nodes in service that are not ready, by cause, since the rule is in force.
	massFailures massFailures
	inForceSince time.Time
}

// Reconcile reconciles one rule.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rule := &v1alpha1.NodeReadinessRule{}
	if err := r.Client.Get(ctx, req.NamespacedName, rule); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading rule %q: %w", req.Name, err)
	}
	compiled, pending := r.Fleet.Rule(rule.UID)
	if compiled == nil || compiled.Generation != rule.Generation || foreign(compiled) {
		return reconcile.Result{}, nil // it is queued again when the fleet has this version, or may write it
	}
	if !rule.DeletionTimestamp.IsZero() {
		return r.cleanUp(ctx, rule, compiled, pending)
	}
	if !controllerutil.ContainsFinalizer(rule, v1alpha1.Served().Finalizer) {
		if err := r.patchFinalizers(ctx, rule, controllerutil.AddFinalizer); err != nil {
			return retry(err, "adding the finalizer to rule %q", rule.Name)
		}
	}
	result, err := r.report(ctx, rule, compiled, pending)
	before := r.Handover.Problem(rule)
	again := r.Handover.Next(ctx, upgraded(rule, r.Clock.Now()), compiled, err == nil && pending == 0 && r.passed(rule))
	if again > 0 && r.Handover.Problem(rule) != before {
		again = min(again, statusInterval) // the status says it then
	}
	if again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
		result.RequeueAfter = again
	}
	if err == nil && r.StateMetrics {
		lastReconciliation.WithLabelValues(rule.Name).Set(float64(r.Clock.Now().Unix()))
	}
	return result, err
}

// foreign reports whether the rule must not be written: a write would lose fields that the served CRD lacks, or another
// controller acts on the rules.
func foreign(rule *ruleset.Rule) bool {
	return slices.ContainsFunc(rule.Problems, func(p ruleset.Problem) bool {
		return p.Reason == ruleset.ReasonForeignCRD || p.Reason == ruleset.ReasonOtherController
	})
}

// patchFinalizers adds or removes the finalizer. It fails if another client has written the rule.
func (r *Reconciler) patchFinalizers(ctx context.Context, rule *v1alpha1.NodeReadinessRule,
	change func(client.Object, string) bool) error {
	before := rule.DeepCopy()
	change(rule, v1alpha1.Served().Finalizer)
	return r.Client.Patch(ctx, rule, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// retry returns the result for an error: a conflict is tried again, and a rule that is gone is no failure.
func retry(err error, format string, args ...any) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, fmt.Errorf(format+": %w", append(args, err)...)
}

// nodesWith returns the names of the nodes that a function selects.
func (r *Reconciler) nodesWith(ctx context.Context, selects func(*corev1.Node) bool) ([]string, error) {
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var names []string
	for i := range nodes.Items {
		if selects(&nodes.Items[i]) {
			names = append(names, nodes.Items[i].Name)
		}
	}
	return names, nil
}

// report writes the status if it has changed and the limits allow it. Otherwise it collects nothing: in a burst, every
// node asks for a report.
func (r *Reconciler) report(ctx context.Context, rule *v1alpha1.NodeReadinessRule, compiled *ruleset.Rule,
	pending int) (reconcile.Result, error) {
	if again := r.untilFirstPass(rule, pending); again > 0 {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	now := r.Clock.Now()
	if wait := r.untilTurn(rule, now); wait > 0 {
		r.Fleet.Mute(rule.UID)
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if wait := r.evidencePending(rule, compiled, now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	unadmitted, undecided := "", false
	if r.AdmissionProblem != nil {
		unadmitted, undecided = r.AdmissionProblem(compiled)
	}
	if undecided {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil // or earlier, when the object is written
	}
	freed := r.Fleet.FreePlaces(rule.UID)
	material, known := r.Fleet.Material(rule.UID)
	if !known || material.Rule != compiled {
		return reconcile.Result{}, nil // the rule has changed and is queued
	}
	if err := r.inherit(ctx, &material, now); err != nil {
		return reconcile.Result{}, err
	}
	material.ReplaceProblem, material.AdmissionProblem = r.Handover.Problem(rule), unadmitted
	material.AdmittedByStatus = r.AdmittedByStatus != nil && r.AdmittedByStatus()
	again := reconcile.Result{RequeueAfter: r.reportMassFailures(rule, &material, now)}
	problem := r.askGuard(compiled, &material)
	order, reorder := r.Fleet.Order(compiled, rule.Status.Rate)
	if order.Why != "" {
		material.Reached = append(material.Reached, order.Why)
	}
	status := Status(rule, &material, problem, now)
	for _, next := range []time.Duration{freed, r.reportServed(ctx, rule, compiled, &status, now), reorder} {
		if next > 0 && (again.RequeueAfter == 0 || next < again.RequeueAfter) {
			again.RequeueAfter = next
		}
	}
	status.Rate = order.Status
	if equality.Semantic.DeepEqual(status, rule.Status) {
		r.Fleet.Issue(compiled, &order) // it has no new claims, and says when there are some
		return again, nil
	}
	if wait := r.admit(rule, now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	before := rule.Status
	rule.Status = status
	if err := r.Client.Status().Update(ctx, rule); err != nil {
		return retry(err, "writing the status of rule %q", rule.Name)
	}
	fleet.StatusWrites.Inc()
	r.Fleet.Issue(compiled, &order)
	r.announce(rule, &before, &material)
	return again, nil
}

// askGuard returns why the eviction guard of a rule may not work, and adds to the material what only the guard knows.
func (r *Reconciler) askGuard(rule *ruleset.Rule, m *fleet.Material) *guard.Problem {
	if r.KeptEndpoints != nil {
		m.KeptEndpoints = r.KeptEndpoints(rule)
	}
	if rule.Spec.EvictionGuard == nil || r.GuardProblem == nil {
		return nil
	}
	return r.GuardProblem(rule)
}

// evidencePending returns how long to wait with the status of a rule whose evidence is being read. This happens after
// each start of the operator, and the status would say for a moment that the rule is not in force.
func (r *Reconciler) evidencePending(rule *v1alpha1.NodeReadinessRule, compiled *ruleset.Rule,
	now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.progress(rule)
	switch {
	case !compiled.Pending():
		p.pendingSince = time.Time{}
		return 0
	case p.pendingSince.IsZero() || p.pendingSince.After(now):
		p.pendingSince = now
	}
	return p.pendingSince.Add(pendingPatience).Sub(now)
}

// untilFirstPass returns how long to wait until this leader has evaluated every node once. An earlier status would
// count only some nodes. A node that cannot be evaluated, for example because other clients change it all the time,
// delays the status for a minute.
func (r *Reconciler) untilFirstPass(rule *v1alpha1.NodeReadinessRule, pending int) time.Duration {
	if r.passed(rule) {
		return 0
	}
	if pending > 0 {
		if wait := r.waitFor(pending, rule, func(p *progress) *waited { return &p.first }); wait > 0 {
			return wait
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress(rule).passed = true
	return 0
}

func (r *Reconciler) passed(rule *v1alpha1.NodeReadinessRule) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress(rule).passed
}

// progress returns what the process remembers of a rule. The caller holds r.mu.
func (r *Reconciler) progress(rule *v1alpha1.NodeReadinessRule) *progress {
	p := r.known[rule.Name]
	if p == nil || p.uid != rule.UID {
		if r.known == nil {
			r.known, r.limit = map[string]*progress{}, rate.NewLimiter(statusRate, statusBurst)
		}
		p = &progress{uid: rule.UID}
		r.known[rule.Name] = p
	}
	return p
}

func (r *Reconciler) forget(rule string) {
	r.Handover.Forget(rule)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, rule)
}

// inherit lets the status go on naming nodes that the rule does not match and that still have a taint of the incumbent
// controller: those of a suspended or invalid rule, or of one whose patches are refused. Only that controller's status
// names these nodes.
func (r *Reconciler) inherit(ctx context.Context, m *fleet.Material, now time.Time) error {
	if len(m.Rule.Inherited) == 0 {
		return nil
	}
	left, err := r.nodesWith(ctx, func(n *corev1.Node) bool {
		_, inherited := m.Rule.Inherited[n.Name]
		return inherited && !m.Rule.Matches(n.Labels) && nodeview.Find(n, m.Rule.Taint) != nil
	})
	slices.Sort(left)
	for _, name := range left {
		m.Evaluations = append(m.Evaluations, v1alpha1.NodeEvaluation{NodeName: name, TaintStatus: v1alpha1.TaintPresent,
			LastEvaluationTime: metav1.NewTime(now)})
	}
	return err
}

// untilTurn returns how long the rule's next status write must wait for its last one, or for those of other rules.
func (r *Reconciler) untilTurn(rule *v1alpha1.NodeReadinessRule, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := now.Sub(r.progress(rule).wrote); since >= 0 && since < statusInterval {
		return statusInterval - since
	}
	if missing := 1 - r.limit.TokensAt(now); missing > 0 {
		return time.Duration(missing / statusRate * float64(time.Second))
	}
	return 0
}

// admit returns how long a status write must wait for those of other rules. If it returns 0, the write counts.
func (r *Reconciler) admit(rule *v1alpha1.NodeReadinessRule, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.progress(rule)
	reservation := r.limit.ReserveN(now, 1)
	if delay := reservation.DelayFrom(now); delay > 0 {
		reservation.CancelAt(now)
		return delay
	}
	p.wrote = now
	return 0
}

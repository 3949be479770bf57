// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/publish"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
)

const (
	// conflictDelay is the delay before a node is reconciled again that another client has written, or of which the
	// evidence was read for former rules. Usually an event comes first.
	conflictDelay = 100 * time.Millisecond
	// rulesDelay is the delay before a node is reconciled again if rules changed while it was. When many rules change,
	// these come within two seconds, and concern the node, too: at once, each of them would cost the node a patch.
	rulesDelay = 2 * time.Second
	// maxRecheck is the longest delay of a requeue, so that a jump of the clock delays a deadline by ten minutes at
	// most.
	maxRecheck = 10 * time.Minute
)

// Reconciler reconciles the taints, records and published conditions of a node with all rules.
type Reconciler struct {
	// Client writes, and reads nodes from a cache. A read after a write waits until the cache has that write.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Fleet has the rules, and stores the verdicts.
	Fleet *fleet.Fleet
	// Evidence reads evidence that is not on the node itself.
	Evidence *sources.Sources
	// Recorder records events on nodes.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// PolicyClaim is called once for each claim that the admission policy has made. It may be nil.
	PolicyClaim func()
	// Evicted reports whether all pods are evicted that were due when a rule's guard ended on a node. It is nil if the
	// operator does not evict pods.
	Evicted func(*corev1.Node, *ruleset.Rule) bool
	// Escapes counts pods that were bound to a node before it was tainted. It may be nil.
	Escapes *Escapes
	// UnprotectedRecords says that no admission policy protects the operator's records. Then the record of a deleted rule
	// does not prove that the taint is the operator's: the taint stays, and is reported.
	UnprotectedRecords bool
	// KeyPrefixes are the prefixes of the keys that rules may have for taints. If empty, all are allowed.
	KeyPrefixes []string
	// TransientTaintPrefixes are the prefixes of taints that are removed while a node starts. They do not decide which
	// DaemonSets belong on the node.
	TransientTaintPrefixes []string
	// StateMetrics turns on the metrics of --enable-node-state-metrics.
	StateMetrics bool
	// StartupObjective is the time within which a node should be released for the first time. 0 means no objective.
	StartupObjective time.Duration
	// Propose is called with rules before they come into force, and Settle before a node is reconciled by them. Both may
	// be nil.
	Propose func(*ruleset.Set)
	Settle  func(context.Context) error
	// Enqueue is called with nodes that need not wait for their retry any longer. It may be nil.
	Enqueue func(nodes ...string)

	startups     startups
	policyClaims policyClaims
	deleted      deletedRules
	ownWrites    ownWrites
	arrivals     evidence.Arrivals
	retries      retries
}

// pass is the state of one reconcile of one node.
type pass struct {
	node      *corev1.Node
	set       *ruleset.Set
	look      fleet.Look
	now       time.Time
	swept     taints.Swept
	decisions []state.Decision
	recheck   time.Time
	changes   []publish.ConditionChange // of the conditions that rules publish
	evidence  *evidence.Gathered
	pods      []corev1.Pod // of the node, if listed
	errPods   error
	listed    bool
}

// Reconcile implements reconcile.Reconciler for one node.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, node); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.Name, r.Clock.Now())
			r.ownWrites.forget(req.Name)
			r.policyClaims.forget(req.Name)
			r.Evidence.Forget(req.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading node %q: %w", req.Name, err)
	}
	look := r.Fleet.Look(node)
	if r.Settle != nil {
		if err := r.Settle(ctx); err != nil {
			return reconcile.Result{}, fmt.Errorf("writing rules for admission before node %q: %w", node.Name, err)
		}
	}
	p := &pass{node: node, set: look.Rules, look: look, now: r.Clock.Now()}
	p.swept.Node, p.swept.Foreign = taints.Succeed(node, p.set), p.set.Foreign()
	if unknown := taints.UnknownRules(p.swept.Node, p.set, r.known); len(unknown) > 0 {
		missing, err := r.deleted.among(ctx, r.Live, unknown, p.now)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("looking up rules with records on node %q: %w", node.Name, err)
		}
		p.swept = taints.Sweep(p.swept.Node, p.set, missing, r.known, p.now)
	}
	if r.UnprotectedRecords {
		p.swept.Doubtful, p.swept.Claims = append(p.swept.Doubtful, p.swept.Claims...), nil
	}
	if !r.gather(p) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	outcome := r.decide(ctx, p)
	r.countPolicyClaims(p)
	if outcome.Patch == nil {
		r.startups.settle(node.Name, p.set, p.decisions, false, p.now)
		return r.finish(ctx, p, node, outcome)
	}
	return r.write(ctx, p, outcome)
}

// known implements taints.Known. The operator claims no taint with a forbidden key, but the admission policy does: it
// does not know the flag, and also records a taint that the node has from another client.
func (r *Reconciler) known(node *corev1.Node, uid string, taint *corev1.Taint) bool {
	return ruleset.KeyAllowed(r.KeyPrefixes, taint.Key) && r.deleted.known(node, uid, taint)
}

// gather reads the evidence on the node. It reports false if other rules have come into force meanwhile: then the
// watches of the former rules may have stopped, and their evidence would look as if it were missing. Watches stop only
// after the rules that need them are no longer in force, and a set of rules that needs watches is put in force once.
func (r *Reconciler) gather(p *pass) bool {
	p.evidence = &evidence.Gathered{}
	r.Evidence.Gather(p.set, p.node.Name, p.evidence)
	return !p.set.Gathers() || r.Fleet.Rules() == p.set
}

// decide makes the decisions of all rules that concern the node, with one time for all, and plans the patch.
func (r *Reconciler) decide(ctx context.Context, p *pass) taints.Outcome {
	override, err := nodeview.OverrideOf(p.node, p.now)
	if err != nil {
		r.eventf(p.node, nil, corev1.EventTypeWarning, reasonInvalidOverride, actionOverride, "%v: the override is "+
			"ignored", err)
	}
	if p.set.Gathers() {
		p.evidence.Absent = r.Evidence.AbsentSince(p.node.Name)
	}
	in := r.input(ctx, p)
	in.Swept, in.Orphans, in.Override, in.Evaluate = p.swept.Node, p.swept.Published, override, r.measured
	limits := func(rule *ruleset.Rule, ask limit.Request) string {
		return r.Fleet.Reserve(rule.UID, p.node.Name, ask)
	}
	if r.Evicted != nil {
		in.Evicted = func(rule *ruleset.Rule) bool { return r.Evicted(p.node, rule) }
	}
	decide := func(noRoom map[types.UID]bool, reserve taints.Reserve) []state.Decision {
		in.NoRoom, in.Reserve, in.MayMark = noRoom, reserve, reserve
		out := gate.DecideNode(in)
		p.decisions, p.recheck, p.changes = out.Decisions, out.RecheckAt, out.Conditions
		return p.decisions
	}
	outcome := taints.Decide(p.node, p.swept, p.now, limits, decide)
	p.again(p.swept.RecheckAt)
	if slices.ContainsFunc(p.decisions, unread) {
		p.again(p.now.Add(podsRetry))
	}
	r.startups.observe(p.node, p.decisions, p.now)
	return outcome
}

// again requests another pass at a time, unless the time is zero.
func (p *pass) again(at time.Time) {
	if !at.IsZero() && (p.recheck.IsZero() || at.Before(p.recheck)) {
		p.recheck = at
	}
}

// input is what decisions about the node read. They reserve nothing.
func (r *Reconciler) input(ctx context.Context, p *pass) *gate.NodeInput {
	return &gate.NodeInput{
		Node: p.node, Swept: p.node, Rules: p.set, Evidence: p.evidence, Now: p.now, Objective: r.StartupObjective,
		Arrivals: &r.arrivals,
		Observed: func(rule *ruleset.Rule) readiness.Observed { return p.look.Observed(rule.UID) },
		Reserve:  func(*ruleset.Rule, limit.Request) string { return "nothing is reserved" },
		Busy:     func() (bool, bool) { return r.busy(ctx, p) },
		Occupied: func(taint *corev1.Taint) (bool, bool) { return r.occupied(ctx, p, taint) },
		Live: func(namespace string, selector labels.Selector) ([]*corev1.Pod, bool) {
			return r.livePods(ctx, p, namespace, selector)
		},
	}
}

// measured evaluates a rule, and measures how long that takes.
func (r *Reconciler) measured(rule *ruleset.Rule, facts *evidence.Facts, before readiness.Observed,
	now time.Time) readiness.Verdict {
	start := time.Now()
	verdict := readiness.Evaluate(rule, facts, before, now)
	evaluationDuration.WithLabelValues(rule.Name).Observe(time.Since(start).Seconds())
	if r.StateMetrics {
		for i := range verdict.Results {
			if res := &verdict.Results[i]; !res.Satisfied && res.Type != "" {
				conditionFailures.WithLabelValues(rule.Name, res.Type).Inc()
			}
		}
	}
	return verdict
}

// write sends the patch. Logs, metrics and events of its changes follow after the API server has accepted it.
func (r *Reconciler) write(ctx context.Context, p *pass, outcome taints.Outcome) (reconcile.Result, error) {
	content := unwritten(p.node, p.decisions, outcome.Changes)
	if last := r.retries.wait(p.node.Name, content, p.recheck, p.now); last != nil {
		return r.postpone(p, outcome, last)
	}
	moved := movedTaints(p.node, outcome.Changes)
	if wait := r.ownWrites.wait(p.node.Name, moved, p.now); wait > 0 {
		r.record(p, p.node, outcome, undone(p.node.Name))
		p.again(p.now.Add(wait))
		return r.again(p), nil
	}
	written := &corev1.Node{}
	written.Name = p.node.Name
	err := r.Client.Patch(ctx, written, client.RawPatch(types.JSONPatchType, outcome.Patch))
	switch {
	case err == nil:
		r.ownWrites.expect(written)
		r.ownWrites.wrote(written.Name, moved, p.now)
		r.announce(ctx, p, written, outcome)
		r.reportLeft(ctx, written, outcome.Left)
		r.reportFull(p, written, outcome)
		r.startups.settle(p.node.Name, p.set, p.decisions, true, p.now)
		p.follow(written)
		return r.finish(ctx, p, written, outcome)
	case gone(err):
		r.vanished(p, p.node, outcome, failure{reason: failurePatch, message: err.Error()})
		return reconcile.Result{}, nil
	case apierrors.IsInvalid(err) || apierrors.IsConflict(err):
		return r.refused(ctx, p, outcome, err)
	}
	return r.fail(p, outcome, failurePatch, fmt.Errorf("patching node %q: %w", p.node.Name, err))
}

// follow requests another pass if more follows from a write, since Relevant ignores the controller's own ones: a rule
// in dry-run has lost its taint, or the record has a reboot by now, without which no guard begins.
func (p *pass) follow(written *corev1.Node) {
	for i := range p.decisions {
		d := &p.decisions[i]
		rehearses := d.Rule.Mode == ruleset.DryRun && d.Was.Present && nodeview.Find(written, d.Rule.Taint) == nil
		guards := d.Was.Rebooted && d.Rule.Spec.EvictionGuard != nil && !d.Verdict.Ready &&
			!nodeview.StateOf(d.Rule, written, p.now).Rebooted
		if rehearses || guards {
			p.again(p.now)
		}
	}
}

// refused distinguishes a concurrent writer, after which the node is reconciled again, from a patch that can never
// succeed, which is an error.
func (r *Reconciler) refused(ctx context.Context, p *pass, outcome taints.Outcome, cause error) (reconcile.Result,
	error) {
	live := &corev1.Node{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(p.node), live); err != nil {
		if gone(err) {
			r.vanished(p, p.node, outcome, failure{reason: failurePatch, message: err.Error()})
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading node %q after its patch was refused: %w", p.node.Name, err)
	}
	if !taints.SameInputs(p.node, live) {
		conflicts.Inc()
		log.FromContext(ctx).V(2).Info("Another client has changed the node, retrying")
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return r.fail(p, outcome, failureRefused, fmt.Errorf(
		"patching node %q: refused, although no other client has changed it: %w", p.node.Name, cause))
}

// rejected reports whether the API server certainly wrote nothing. After any other error the patch may have succeeded,
// so its claims stay granted. So it may after the answer of a proxy, which has waited for the API server's.
func rejected(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 &&
		status.Status().Code != http.StatusRequestTimeout && !apierrors.IsUnexpectedServerError(err)
}

// gone reports whether the API server says that the node does not exist. A 404 of a proxy does not count.
func gone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

func (r *Reconciler) fail(p *pass, outcome taints.Outcome, reason string, err error) (reconcile.Result, error) {
	for _, d := range p.decisions {
		countFailure(d.Rule, outcome.Changes)
	}
	failed := failure{reason: reason, message: err.Error(), rejected: rejected(err)}
	r.record(p, p.node, outcome, &failed)
	r.retries.failed(p.node.Name, &retry{write: unwritten(p.node, p.decisions, outcome.Changes),
		recheck: p.recheck, failure: failed, err: err}, r.Clock.Now())
	return reconcile.Result{}, err
}

// done brings other nodes forward whose last write has failed if the node's last write has failed, too, but nothing is
// left to write.
func (r *Reconciler) done(p *pass) {
	if names := r.retries.done(p.node.Name, r.Clock.Now()); len(names) > 0 && r.Enqueue != nil {
		r.Enqueue(names...)
	}
}

// vanished drops a node that was deleted before a write, which has used none of what was granted for it.
func (r *Reconciler) vanished(p *pass, node *corev1.Node, outcome taints.Outcome, failed failure) {
	failed.rejected = true
	r.record(p, node, outcome, &failed)
	r.forget(node.Name, p.now)
}

// forget drops a deleted node.
func (r *Reconciler) forget(node string, now time.Time) {
	r.Fleet.Forget(node, now)
	r.startups.forgetNode(node, now)
	r.arrivals.Forget(node)
	r.retries.forget(node, now)
}

// again requeues the node for its next deadline, or soon if the rules changed during this pass. Otherwise a taint that
// was just written for a deleted rule would stay: the fleet no longer tracks that rule, and Relevant ignores the
// controller's own write. The requeue has the priority of an event.
func (r *Reconciler) again(p *pass) reconcile.Result {
	now := r.Clock.Now()
	if r.Fleet.Rules() != p.set {
		p.again(now.Add(rulesDelay))
	}
	if p.recheck.IsZero() {
		return reconcile.Result{}
	}
	after := min(max(p.recheck.Sub(now), time.Millisecond), maxRecheck)
	normal := 0
	return reconcile.Result{RequeueAfter: after, Priority: &normal}
}

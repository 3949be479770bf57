// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/leader"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/text"
)

const (
	// least is the least time between two passes over all nodes.
	least = time.Second
	// pageSize is how many nodes are read at once past the cache.
	pageSize = 500
	// inspect is how often the policy and the object are read although nothing has changed.
	inspect = 30 * time.Second
	// refusals is how often in a row the object may not be read, until the operator takes it that it never may where no
	// rule has endpoints. The API server forbids it for a moment after its start, too.
	refusals = 10
	// defaultLease is how long a lease is valid that does not say it. Kubelet renews its lease four times in this time.
	defaultLease = 40 * time.Second
)

// Keeper decides for all rules and nodes in one pass: the name of the request has no meaning.
type Keeper struct {
	// Nodes reads nodes from a cache.
	Nodes client.Reader
	// Live reads and writes past the cache.
	Live client.Client
	// Lease is what a leader holds. It is nil without an election.
	Lease *leader.Lease
	// Rules returns the rules in force, or nil before there are any.
	Rules func() *ruleset.Set
	// Policy is the name of the admission policy and of its binding.
	Policy string
	// Recorder records events on nodes.
	Recorder events.EventRecorder
	// Changed is called with the name of each rule for which the result of Problem or Kept may have changed.
	Changed func(rules ...string)
	// Look enqueues a pass. Mark enqueues nodes whose pods are to be marked, for Pods.
	Look func()
	Mark func(nodes ...string)
	// Clock tells the time by the API server's clock: what the admission policy and the node controller compare with the
	// operator's times, and the ages of leases, are by that.
	Clock clock.PassiveClock

	// These are used by passes only: the last pass, the last look, whether a rule needed the policy then, and whether
	// there is no policy. Refused is how many looks in a row were not allowed to read an object that no rule needs.
	passed, looked time.Time
	wanted, gone   bool
	refused        int
	// lost are the nodes that were lost in the last pass.
	lost sets.Set[string]

	mu       sync.Mutex
	object   *endpointsv1alpha1.KeptEndpoints // as it is stored; nil if that is not known
	problems map[string]problem               // why endpoints do not work, by what failed
	left     map[types.UID]int                // nodes for which the object has no room, by rule
	kept     map[types.UID]int                // nodes, by rule
	marked   map[string]mark                  // nodes whose pods were marked not ready
	causes   map[string]string                // why pods of nodes are kept no longer
}

// What may fail. Each problem lasts until the same succeeds.
const (
	looking = "look"
	writing = "write"
	leasing = "leases"
	marking = "pods of "
)

// problem is why endpoints do not work, for one rule if it has a UID, or else for all.
type problem struct {
	rule types.UID
	text string
}

// mark identifies the time when a node was lost.
type mark struct {
	node types.UID
	lost time.Time
}

// Reconcile brings the states of all nodes up to date.
func (k *Keeper) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := k.Clock.Now()
	if now.Before(k.passed) { // the clock was set back
		k.passed, k.looked = time.Time{}, time.Time{}
	}
	if wait := k.passed.Add(least).Sub(now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	rules := k.Rules()
	if rules == nil {
		return reconcile.Result{RequeueAfter: least}, nil
	}
	k.passed = now
	wanted := slices.ContainsFunc(rules.All(), guard.KeepsEndpoints)
	if stored := k.stored(); !wanted && stored != nil && len(stored.Rules) == 0 {
		k.wanted = false
		if k.refused == 0 || k.refused >= refusals && !slices.ContainsFunc(rules.All(), hasEndpoints) {
			return reconcile.Result{}, nil
		}
		if wait := k.looked.Add(inspect).Sub(now); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	var next time.Time
	err := leader.Retry(func() (err error) {
		if now.Sub(k.looked) >= inspect || k.stored() == nil || !k.wanted {
			if err := k.look(ctx, wanted); err != nil {
				return err
			}
			k.looked, k.wanted = now, wanted
		}
		next, err = k.pass(ctx, rules)
		return err
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	wait := inspect
	if !next.IsZero() {
		wait = min(wait, max(next.Sub(k.Clock.Now()), least))
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// hasEndpoints reports whether a rule asks for endpoints, also if it is not in force.
func hasEndpoints(rule *ruleset.Rule) bool { return rule.Spec.EvictionGuard.EndpointsHold() > 0 }

func (k *Keeper) stored() *endpointsv1alpha1.KeptEndpoints {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.object
}

// look reads the object, and whether the policy is installed. If no rule needs them, it is no error that they are not
// there.
func (k *Keeper) look(ctx context.Context, wanted bool) error {
	object, problem, gone := &endpointsv1alpha1.KeptEndpoints{}, "", false
	err := k.Live.Get(ctx, client.ObjectKey{Name: endpointsv1alpha1.Name}, object)
	missing := apierrors.IsForbidden(err) || meta.IsNoMatchError(err)
	switch {
	case missing && !wanted:
		k.refused++
	case missing, client.IgnoreNotFound(err) == nil:
		k.refused = 0
	}
	switch {
	case apierrors.IsNotFound(err) || missing && !wanted:
		object = &endpointsv1alpha1.KeptEndpoints{}
		object.Name = endpointsv1alpha1.Name
	case missing:
		object, problem = nil, err.Error()
	case err != nil:
		return fmt.Errorf("reading the kept endpoints: %w", err)
	}
	for _, part := range []client.Object{&admissionregistrationv1.MutatingAdmissionPolicy{},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{}} {
		if !wanted || problem != "" {
			break
		}
		err := k.Live.Get(ctx, client.ObjectKey{Name: k.Policy}, part)
		switch {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			problem, gone = err.Error(), true
		case apierrors.IsForbidden(err): // also for a moment after a start of the API server: the policy may be there
			problem = err.Error()
		case err != nil:
			return fmt.Errorf("looking for the admission policy: %w", err)
		}
	}
	if wanted && problem == "" {
		if _, err := k.listLeases(ctx, client.Limit(1)); err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	k.gone = gone
	k.mu.Lock()
	k.object = object
	k.mu.Unlock()
	k.setProblem(looking, "", problem)
	return nil
}

// setProblem remembers why something does not work, and enqueues the rules if that has changed.
func (k *Keeper) setProblem(what string, rule types.UID, text string) {
	k.mu.Lock()
	changed := k.problems[what].text != text
	if k.problems == nil {
		k.problems = map[string]problem{}
	}
	if k.problems[what] = (problem{rule, text}); text == "" {
		delete(k.problems, what)
	}
	k.mu.Unlock()
	if !changed {
		return
	}
	for _, r := range k.Rules().All() {
		if hasEndpoints(r) {
			k.Changed(r.Name)
		}
	}
}

// Problem returns why the endpoints of a rule do not work, or nil if no reason is known.
func (k *Keeper) Problem(rule *ruleset.Rule) *guard.Problem {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !hasEndpoints(rule) {
		return nil
	}
	if why := k.first(""); why != "" {
		return &guard.Problem{Reason: guard.ReasonNoEndpointPolicy, Message: "evictions are denied, but endpoints do not " +
			"work, which need Kubernetes 1.36, an admission policy and permissions: set evictionGuard.endpoints.enabled in " +
			"the chart, or apply config/endpoint-policy: " + why}
	}
	why := k.first(rule.UID)
	if n := k.left[rule.UID]; n > 0 {
		why = fmt.Sprintf("pods of %s do not stay ready in an outage, because the object KeptEndpoints has no room for "+
			"more: see its size in docs/eviction-guard.md", text.Nodes(n))
	}
	if why == "" {
		return nil
	}
	return &guard.Problem{Reason: guard.ReasonEndpointsIncomplete, Message: "evictions are denied, but " + why}
}

// first returns the first problem of a rule alone, or of all.
func (k *Keeper) first(rule types.UID) string {
	for _, what := range slices.Sorted(maps.Keys(k.problems)) {
		if p := k.problems[what]; p.rule == rule {
			return p.text
		}
	}
	return ""
}

// Kept returns on how many nodes the pods stay ready because of a rule.
func (k *Keeper) Kept(rule *ruleset.Rule) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept[rule.UID]
}

// pass plans the next states, writes them, and enqueues the nodes whose pods are to be marked.
func (k *Keeper) pass(ctx context.Context, rules *ruleset.Set) (next time.Time, err error) {
	stored := k.stored()
	if stored == nil {
		return next, nil
	}
	nodes, unread, nerr := k.nodes(ctx, stored)
	if nodes == nil {
		return next, nerr
	}
	before := map[types.UID]*endpointsv1alpha1.EndpointRule{}
	order := make([]types.UID, 0, len(stored.Rules))
	for i := range stored.Rules {
		uid := types.UID(stored.Rules[i].UID)
		before[uid] = &stored.Rules[i]
		order = append(order, uid)
	}
	for _, rule := range rules.All() {
		if before[rule.UID] == nil {
			order = append(order, rule.UID)
		}
	}
	// The time is from before the list of leases: if the list takes long, they look too young, and lost nodes wait.
	now := k.Clock.Now()
	leases := k.leases(ctx, now)
	var all []endpointsv1alpha1.EndpointRule
	room, left := guard.RoomIn(stored.Rules), map[types.UID]int{}
	plans := map[types.UID]guard.EndpointsPlan{}
	for _, uid := range order {
		in := guard.Endpoints{Rule: rules.Rule(uid), Stored: before[uid], Nodes: nodes, Unread: unread,
			Done: k.done(stored, nodes), Now: now, Room: room, Leases: func() map[string]guard.Lease { return leases.get(&err) }}
		if k.gone && in.Rule != nil && !in.Rule.Inert() {
			in.Rule = nil // the policy keeps nothing: end what it has kept
		}
		p := guard.PlanEndpoints(&in)
		if plans[uid] = p; p.Next != nil {
			all = append(all, *p.Next)
		}
		if p.Left > 0 {
			left[uid] = p.Left
		}
		if !p.At.IsZero() && (next.IsZero() || p.At.Before(next)) {
			next = p.At
		}
	}
	k.setLeft(rules, left)
	written, werr := k.write(ctx, stored, all)
	if werr != nil {
		return next, errors.Join(err, nerr, werr)
	}
	k.tell(rules, before, plans, written, nodes)
	return next, errors.Join(err, nerr)
}

// setLeft remembers for how many nodes there is no room, and enqueues the rules for which that has changed.
func (k *Keeper) setLeft(rules *ruleset.Set, left map[types.UID]int) {
	k.mu.Lock()
	former := k.left
	k.left = left
	k.mu.Unlock()
	for _, rule := range rules.All() {
		if left[rule.UID] != former[rule.UID] {
			k.Changed(rule.Name)
		}
	}
}

// write makes the object what was planned.
func (k *Keeper) write(ctx context.Context, stored *endpointsv1alpha1.KeptEndpoints,
	rules []endpointsv1alpha1.EndpointRule) (*endpointsv1alpha1.KeptEndpoints, error) {
	if equality.Semantic.DeepEqual(stored.Rules, rules) {
		k.setProblem(writing, "", "")
		return stored, nil
	}
	object := stored.DeepCopy()
	object.Rules = rules
	err := k.failed(writing, "", "writing the kept endpoints", k.Lease.Write(ctx, k.Live, object))
	if err != nil {
		object = nil // read it again
	}
	k.mu.Lock()
	k.object = object
	k.mu.Unlock()
	return object, err
}

// failed returns an error, and remembers the problem if the error may last, as a missing permission does.
func (k *Keeper) failed(what string, rule types.UID, doing string, err error) error {
	switch {
	case err == nil:
		k.setProblem(what, rule, "")
		return nil
	case leader.Lasts(err):
		first, _, _ := strings.Cut(err.Error(), "\n") // of many pods
		k.setProblem(what, rule, doing+": "+first)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

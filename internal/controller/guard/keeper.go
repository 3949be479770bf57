// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	applyconfigurations "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Names in the manifests.
const (
	// WebhookName is the webhook's name in its configuration.
	WebhookName = "pods.readiness.node.x-k8s.io"
	// ConditionName is the name of the match condition that names the users.
	ConditionName = "guarded-users"
)

const (
	// lookEvery is how often the configuration is read again: somebody may have applied the manifests.
	lookEvery = 30 * time.Second
	// bypassedFor is how long a rule's status says that a guarded pod was evicted.
	bypassedFor = time.Hour
	fieldOwner  = "nodegate-eviction-guard"
)

// Reasons why a guard cannot be relied on.
const (
	ReasonWebhookOff     = "WebhookOff"
	ReasonWebhookMissing = "WebhookMissing"
	ReasonNotLookedAt    = "NotLookedAt"
	ReasonUnknownUser    = "UnknownUser"
	ReasonGuardBypassed  = "GuardBypassed"
)

// Keeper keeps the webhook's configuration, on the leader.
type Keeper struct {
	// Live reads past any cache; Writer writes.
	Live   client.Reader
	Writer client.Writer
	// Rules is the present snapshot of all rules; Subscribe calls back with each change of it.
	Rules     func() *ruleset.Set
	Subscribe func(func(*ruleset.Set))
	// Configuration is the name of the webhook's configuration; empty, where this operator serves no webhooks.
	Configuration string
	// Changed is told the names of rules of which Problem may say something else.
	Changed func(rule string)
	// Clock tells the time.
	Clock clock.PassiveClock

	mu       sync.Mutex
	looked   bool
	problem  *Problem
	noUser   bool
	bypassed map[types.UID]bypass
}

// Problem is why a rule's guard cannot be relied on.
type Problem struct{ Reason, Message string }

type bypass struct {
	pod, node string
	at        time.Time
}

// Start implements manager.Runnable.
func (k *Keeper) Start(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	k.Subscribe(func(*ruleset.Set) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := k.Look(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Keeping the eviction guard's webhook in step with the rules")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
		}
	}
}

// Look brings the webhook's configuration in line with the rules, and finds out what stands in the way. Where no rule guards it
// says what the manifests say, so that they can be applied again without a conflict.
func (k *Keeper) Look(ctx context.Context) error {
	if k.Configuration == "" {
		k.conclude(nil, false)
		return nil
	}
	users := guard.AllUsers(k.Rules())
	problem, err := k.sync(ctx, users)
	if err != nil {
		return err
	}
	noUser := false
	if slices.Contains(users, v1alpha1.DefaultGuardedUser) {
		account := &corev1.ServiceAccount{}
		err := k.Live.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "node-controller"}, account)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("looking for the node controller's service account: %w", err)
		}
		noUser = err != nil
	}
	k.conclude(problem, noUser)
	return nil
}

func (k *Keeper) sync(ctx context.Context, users []string) (*Problem, error) {
	have := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := k.Live.Get(ctx, client.ObjectKey{Name: k.Configuration}, have)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the webhook configuration: %w", err)
	}
	at := slices.IndexFunc(have.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == WebhookName })
	if at < 0 {
		return &Problem{Reason: ReasonWebhookMissing, Message: fmt.Sprintf(
			"there is no webhook %s in ValidatingWebhookConfiguration %s: apply the manifests of this version", WebhookName, k.Configuration)}, nil
	}
	want := guard.MatchCondition(users)
	if slices.ContainsFunc(have.Webhooks[at].MatchConditions, func(c admissionregistrationv1.MatchCondition) bool {
		return c.Name == ConditionName && strings.TrimSpace(c.Expression) == want
	}) {
		return nil, nil
	}
	apply := applyconfigurations.ValidatingWebhookConfiguration(k.Configuration).WithWebhooks(
		applyconfigurations.ValidatingWebhook().WithName(WebhookName).WithMatchConditions(
			applyconfigurations.MatchCondition().WithName(ConditionName).WithExpression(want)))
	if err := k.Writer.Apply(ctx, apply, client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("writing the webhook configuration: %w", err)
	}
	log.FromContext(ctx).Info("The eviction guard is asked about other users", "users", users)
	return nil, nil
}

// conclude keeps what was found, and tells if it is something else than before.
func (k *Keeper) conclude(problem *Problem, noUser bool) {
	k.mu.Lock()
	same := k.looked && k.noUser == noUser && (problem == nil) == (k.problem == nil) && (problem == nil || *problem == *k.problem)
	k.looked, k.problem, k.noUser = true, problem, noUser
	k.mu.Unlock()
	if same {
		return
	}
	for _, r := range k.Rules().All() {
		if r.Spec.EvictionGuard != nil {
			k.Changed(r.Name)
		}
	}
}

// Bypassed keeps that a pod was evicted though a rule guards it.
func (k *Keeper) Bypassed(rule *ruleset.Rule, pod *corev1.Pod) {
	k.mu.Lock()
	if k.bypassed == nil {
		k.bypassed = map[types.UID]bypass{}
	}
	k.bypassed[rule.UID] = bypass{pod: pod.Namespace + "/" + pod.Name, node: pod.Spec.NodeName, at: k.Clock.Now()}
	k.mu.Unlock()
	k.Changed(rule.Name)
}

// Problem says why the guard of a rule cannot be relied on; nil, as far as is known, it can.
func (k *Keeper) Problem(rule *ruleset.Rule) *Problem {
	k.mu.Lock()
	defer k.mu.Unlock()
	users := guard.Users(rule)
	b, bypassed := k.bypassed[rule.UID]
	switch {
	case k.Configuration == "":
		return &Problem{Reason: ReasonWebhookOff, Message: "nothing is guarded: this operator serves no webhooks (--enable-webhook)"}
	case !k.looked:
		return &Problem{Reason: ReasonNotLookedAt, Message: "the webhook's configuration has not been looked at yet"}
	case k.problem != nil:
		return k.problem
	case k.noUser && slices.Contains(users, v1alpha1.DefaultGuardedUser) && !slices.Contains(users, guard.ControllerManager):
		return &Problem{Reason: ReasonUnknownUser, Message: "there is no service account kube-system/node-controller: the controller manager seems to run without " +
			"--use-service-account-credentials; name " + guard.ControllerManager + " among evictionGuard.users, or leave users out"}
	case bypassed && k.Clock.Now().Sub(b.at) < bypassedFor:
		return &Problem{Reason: ReasonGuardBypassed, Message: fmt.Sprintf(
			"pod %s was evicted from node %s though it is guarded: another user than %s evicts, or the webhook could not be reached",
			b.pod, b.node, strings.Join(users, ", "))}
	}
	return nil
}

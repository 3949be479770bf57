// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/ruleset"
)

const (
	// webhookName is the webhook's name in its configuration, and conditionName the name of the match condition by which
	// the API server calls it for the guarded users only.
	webhookName   = "pods.readiness.node.x-k8s.io"
	conditionName = "guarded-users"

	// lookEvery is how often the configuration is read.
	lookEvery = 30 * time.Second
	// bypassedFor is how long a rule's status says that a guarded pod was evicted.
	bypassedFor = time.Hour
)

// Monitor finds out whether guards can be relied on, on the leader. It reads the webhook's configuration and writes
// nothing.
type Monitor struct {
	// Live reads past any cache.
	Live client.Reader
	// Rules is the present snapshot of all rules.
	Rules func() *ruleset.Set
	// Users are the users whose deletions are guarded against.
	Users []string
	// Configuration is the name of the webhook's configuration; empty if this operator serves no webhooks.
	Configuration string
	// Changed is told the names of rules of which Problem may say something else.
	Changed func(rule string)
	// Clock tells the time.
	Clock clock.PassiveClock

	mu       sync.Mutex
	looked   bool
	problem  *guard.Problem
	bypassed map[types.UID]bypass
}

type bypass struct {
	pod, node string
	at        time.Time
}

// Start implements manager.Runnable.
func (m *Monitor) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := m.Look(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Checking the eviction guard's webhook")
		}
	}, lookEvery)
	return nil
}

// Look reads the webhook's configuration, and tells if something else is wrong with it than before.
func (m *Monitor) Look(ctx context.Context) error {
	problem, err := m.look(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	same := m.looked && (problem == nil) == (m.problem == nil) && (problem == nil || *problem == *m.problem)
	m.looked, m.problem = true, problem
	m.mu.Unlock()
	if same {
		return nil
	}
	for _, r := range m.Rules().All() {
		if guards(r) {
			m.Changed(r.Name)
		}
	}
	return nil
}

func (m *Monitor) look(ctx context.Context) (*guard.Problem, error) {
	if m.Configuration == "" {
		return nil, nil
	}
	have := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := m.Live.Get(ctx, client.ObjectKey{Name: m.Configuration}, have)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the webhook configuration: %w", err)
	}
	at := slices.IndexFunc(have.Webhooks,
		func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == webhookName })
	if at < 0 {
		return &guard.Problem{Reason: guard.ReasonWebhookMissing, Message: fmt.Sprintf(
			"ValidatingWebhookConfiguration %s has no webhook %s: apply the manifests of this version", m.Configuration,
			webhookName)}, nil
	}
	if user := m.notAsked(have.Webhooks[at].MatchConditions); user != "" {
		return &guard.Problem{Reason: guard.ReasonUnknownUser, Message: fmt.Sprintf(
			"the match condition %s of webhook %s does not name %s, as --eviction-guard-users does", conditionName, webhookName,
			user)}, nil
	}
	if slices.Contains(m.Users, guard.ControllerManager) || !slices.Contains(m.Users, guard.NodeController) {
		return nil, nil
	}
	account := &corev1.ServiceAccount{}
	switch err := m.Live.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "node-controller"}, account); {
	case apierrors.IsNotFound(err):
		return &guard.Problem{Reason: guard.ReasonUnknownUser, Message: "there is no service account " +
			"kube-system/node-controller: " +
			"the controller manager seems to run without --use-service-account-credentials; add " + guard.ControllerManager +
			" to --eviction-guard-users"}, nil
	case err != nil:
		return nil, fmt.Errorf("looking for the node controller's service account: %w", err)
	}
	return nil, nil
}

// notAsked returns a user about whom the API server does not ask; empty if there is none.
func (m *Monitor) notAsked(conditions []admissionregistrationv1.MatchCondition) string {
	for _, c := range conditions {
		for _, u := range m.Users {
			if c.Name == conditionName && !strings.Contains(c.Expression, strconv.QuoteToASCII(u)) {
				return u
			}
		}
	}
	return ""
}

// Bypassed keeps that a pod was evicted though a rule guards it.
func (m *Monitor) Bypassed(rule *ruleset.Rule, pod *corev1.Pod) {
	m.mu.Lock()
	if m.bypassed == nil {
		m.bypassed = map[types.UID]bypass{}
	}
	m.bypassed[rule.UID] = bypass{pod: pod.Namespace + "/" + pod.Name, node: pod.Spec.NodeName, at: m.Clock.Now()}
	m.mu.Unlock()
	m.Changed(rule.Name)
}

// Problem says why the guard of a rule cannot be relied on; nil if, as far as is known, it can.
func (m *Monitor) Problem(rule *ruleset.Rule) *guard.Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, bypassed := m.bypassed[rule.UID]
	switch {
	case m.Configuration == "":
		return &guard.Problem{Reason: guard.ReasonWebhookOff, Message: "nothing is guarded: this operator serves no " +
			"webhooks (--enable-webhook)"}
	case !m.looked:
		return &guard.Problem{Reason: guard.ReasonNotLookedAt, Message: "the webhook's configuration has not been read yet"}
	case m.problem != nil:
		return m.problem
	case bypassed && m.Clock.Now().Sub(b.at) < bypassedFor:
		return &guard.Problem{Reason: guard.ReasonGuardBypassed, Message: fmt.Sprintf(
			"pod %s was evicted from node %s though it is guarded: another user than %s evicts, or the webhook could not be "+
				"reached",
			b.pod, b.node, strings.Join(m.Users, ", "))}
	}
	return nil
}

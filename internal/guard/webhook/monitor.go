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
	// webhookName is the webhook's name in its configuration. conditionName is the name of the match condition that
	// limits its calls to the guarded users.
	webhookName   = "pods.webhooks.nodegate.io"
	conditionName = "guarded-users"

	// lookEvery is the interval between two reads of the configuration.
	lookEvery = 30 * time.Second
	// bypassedFor is how long a rule's status says that a guarded pod was evicted.
	bypassedFor = time.Hour
)

// Monitor checks whether the API server calls the guard's webhook. It runs on the leader, reads the webhook's
// configuration, and writes nothing.
type Monitor struct {
	// Live reads from the API server.
	Live client.Reader
	// Rules returns the current snapshot of all rules.
	Rules func() *ruleset.Set
	// Users are the users whose deletions the guard denies.
	Users []string
	// Configuration is the name of the webhook's configuration. It is empty if this operator serves no webhooks.
	Configuration string
	// Changed is called with the name of each rule for which the result of Problem may have changed.
	Changed func(rule string)
	// Clock tells the time.
	Clock clock.PassiveClock

	mu       sync.Mutex
	looked   bool
	problem  *guard.Problem
	bypassed map[types.UID]bypass
}

type bypass struct {
	rule, pod, node string
	at              time.Time
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

// Look reads the webhook's configuration, and calls Changed if the result differs from the last one. It also ends what
// Bypassed has recorded.
func (m *Monitor) Look(ctx context.Context) error {
	m.endBypasses()
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
			"the match condition %s of webhook %s does not have %s, which --eviction-guard-users "+
				"has", conditionName, webhookName,
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

// notAsked returns a guarded user for whom the API server does not call the webhook, or "" if there is none.
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

// endBypasses drops what Bypassed has recorded more than bypassedFor ago.
func (m *Monitor) endBypasses() {
	var ended []string
	m.mu.Lock()
	for rule, b := range m.bypassed {
		if m.Clock.Since(b.at) >= bypassedFor {
			delete(m.bypassed, rule)
			ended = append(ended, b.rule)
		}
	}
	m.mu.Unlock()
	for _, rule := range ended {
		m.Changed(rule)
	}
}

// Bypassed records that a pod was evicted although a rule guards it.
func (m *Monitor) Bypassed(rule *ruleset.Rule, pod *corev1.Pod) {
	m.mu.Lock()
	if m.bypassed == nil {
		m.bypassed = map[types.UID]bypass{}
	}
	m.bypassed[rule.UID] = bypass{rule: rule.Name, pod: pod.Namespace + "/" + pod.Name, node: pod.Spec.NodeName,
		at: m.Clock.Now()}
	m.mu.Unlock()
	m.Changed(rule.Name)
}

// Problem returns the reason why the guard of a rule may not deny evictions, or nil if no reason is known.
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
	case bypassed:
		return &guard.Problem{Reason: guard.ReasonGuardBypassed, Message: fmt.Sprintf(
			"pod %s was evicted from node %s although it was guarded: a user other than %s evicts pods, or the webhook could "+
				"not be reached",
			b.pod, b.node, strings.Join(m.Users, ", "))}
	}
	return nil
}

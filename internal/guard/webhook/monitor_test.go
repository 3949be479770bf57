// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// monitor is a Monitor for one rule. The API server has the shipped configuration and, if asked to, the node
// controller's account. The names of the rules that it tells of are appended to changed.
func monitor(t *testing.T, account bool, changed *[]string) (*Monitor, *ruleset.Rule) {
	t.Helper()
	installed, err := cluster.ReadConfig(cluster.ValidatingWebhooks)
	if err != nil {
		t.Fatal(err)
	}
	server := fake.NewClientBuilder().WithScheme(cluster.Scheme())
	for _, o := range installed {
		server.WithObjects(o)
	}
	if account {
		server.WithObjects(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system",
			Name: "node-controller"}})
	}
	rule := ruleset.Compile(build.MakeRule("link").UID("u-link").Selector("a", "b").Condition("Ready").EvictionGuard(60).
		Obj(), nil, start)
	return &Monitor{
		Live: server.Build(), Rules: func() *ruleset.Set { return ruleset.NewSet(rule) }, Users: guard.DefaultUsers(),
		Configuration: "nodegate-webhook", Changed: func(rule string) { *changed = append(*changed, rule) },
		Clock: clocktesting.NewFakePassiveClock(start),
	}, rule
}

func look(t *testing.T, m *Monitor) {
	t.Helper()
	if err := m.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// configure changes the webhook's configuration on the API server.
func (m *Monitor) configure(t *testing.T, change func(*admissionregistrationv1.ValidatingWebhookConfiguration)) {
	t.Helper()
	server, ok := m.Live.(client.Client)
	have := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := m.Live.Get(t.Context(), client.ObjectKey{Name: m.Configuration}, have); err != nil || !ok {
		t.Fatal(err)
	}
	change(have)
	if err := server.Update(t.Context(), have); err != nil {
		t.Fatal(err)
	}
}

// conditions replaces the match conditions of all webhooks.
func conditions(all ...admissionregistrationv1.MatchCondition,
) func(*admissionregistrationv1.ValidatingWebhookConfiguration) {
	return func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		for i := range c.Webhooks {
			c.Webhooks[i].MatchConditions = all
		}
	}
}

func TestWhyAGuardCannotBeReliedOn(t *testing.T) {
	for name, c := range map[string]struct {
		edit      func(*Monitor)
		config    func(*admissionregistrationv1.ValidatingWebhookConfiguration)
		noAccount bool
		unread    bool // the configuration has not been read
		reason    string
		says      string
	}{
		"all is well":            {},
		"not read yet":           {unread: true, reason: guard.ReasonNotLookedAt},
		"no webhooks are served": {edit: func(m *Monitor) { m.Configuration = "" }, reason: guard.ReasonWebhookOff},
		"the API server does not know the webhook": {edit: func(m *Monitor) { m.Configuration = "other" },
			reason: guard.ReasonWebhookMissing},
		"the API server does not ask about a user": {edit: func(m *Monitor) { m.Users = append(m.Users, "jane") },
			reason: guard.ReasonUnknownUser, says: "does not have jane"},
		"the node controller has no account": {edit: func(m *Monitor) { m.Users = []string{guard.NodeController} },
			noAccount: true, reason: guard.ReasonUnknownUser},
		"it has none, and the controller manager is guarded against": {
			edit:      func(m *Monitor) { m.Users = []string{guard.NodeController, guard.ControllerManager} },
			noAccount: true},
		"it has none, and only another user is guarded against": {config: conditions(), noAccount: true,
			edit: func(m *Monitor) { m.Users = []string{"jane"} }},
		"the API server has the webhooks in another order": {
			config: func(c *admissionregistrationv1.ValidatingWebhookConfiguration) { slices.Reverse(c.Webhooks) }},
		"the API server also asks by a condition of another purpose": {
			config: conditions(admissionregistrationv1.MatchCondition{Name: "not-tests",
				Expression: "request.namespace != 'tests'"})},
	} {
		t.Run(name, func(t *testing.T) {
			m, rule := monitor(t, !c.noAccount, &[]string{})
			if c.config != nil {
				m.configure(t, c.config)
			}
			if c.edit != nil {
				c.edit(m)
			}
			if !c.unread {
				look(t, m)
			}
			got := m.Problem(rule)
			if got == nil {
				got = &guard.Problem{}
			}
			if got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
				t.Errorf("got %+v, want %s, %q", got, c.reason, c.says)
			}
		})
	}
}

func TestAnEvictedPodIsReportedForAnHour(t *testing.T) {
	var changed []string
	m, rule := monitor(t, true, &changed)
	told := func(times int) {
		t.Helper()
		if !slices.Equal(changed, slices.Repeat([]string{"link"}, times)) {
			t.Errorf("told of %v, want %d times", changed, times)
		}
	}
	look(t, m)
	look(t, m) // nothing has changed
	told(1)
	m.Bypassed(rule, build.MakePod("default", "web-0").Node("n1").Obj())
	told(2)
	if p := m.Problem(rule); p == nil || !strings.Contains(p.Message, "pod default/web-0 was evicted from node n1") {
		t.Errorf("got %+v", p)
	}
	m.Clock = clocktesting.NewFakePassiveClock(start.Add(61 * time.Minute))
	look(t, m)
	told(3) // the rule's status must no longer say so
	if p := m.Problem(rule); p != nil {
		t.Errorf("got %+v", p)
	}
}

// TestAProblemIsToldWhenItChanges: the rules' statuses say so, and are not written in between.
func TestAProblemIsToldWhenItChanges(t *testing.T) {
	var changed []string
	m, rule := monitor(t, true, &changed)
	var webhooks []admissionregistrationv1.ValidatingWebhook
	for i, c := range []struct {
		config func(*admissionregistrationv1.ValidatingWebhookConfiguration)
		reason string
	}{
		{func(*admissionregistrationv1.ValidatingWebhookConfiguration) {}, ""},
		{conditions(admissionregistrationv1.MatchCondition{Name: conditionName, Expression: "false"}),
			guard.ReasonUnknownUser},
		{func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			webhooks, c.Webhooks = c.Webhooks, nil
		},
			guard.ReasonWebhookMissing},
		{func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks = webhooks
			conditions()(c)
		}, ""},
	} {
		m.configure(t, c.config)
		look(t, m)
		look(t, m)
		reason := ""
		if p := m.Problem(rule); p != nil {
			reason = p.Reason
		}
		if len(changed) != i+1 || reason != c.reason {
			t.Errorf("change %d: told %d times, the reason is %q, want %q", i, len(changed), reason, c.reason)
		}
	}
	server, _ := m.Live.(client.WithWatch)
	m.Live = interceptor.NewClient(server, interceptor.Funcs{Get: func(context.Context, client.WithWatch,
		client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("x")
	}})
	if err := m.Look(t.Context()); err == nil || m.Problem(rule) != nil || len(changed) != 4 {
		t.Errorf("the configuration cannot be read: %v, and the problem is %v", err, m.Problem(rule))
	}
}

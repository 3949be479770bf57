// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

var server *cluster.Cluster

func TestGuard(t *testing.T) {
	suite.Run(t, "The monitor of the eviction guard's webhook")
}

var _ = BeforeSuite(func() { server = suite.Server() })

const configuration = "nodegate-webhook"

// monitor is a Monitor for one rule, with the shipped configuration and the node controller's account on the API
// server.
func monitor(ctx context.Context, users ...string) (*Monitor, *ruleset.Rule, *[]string) {
	GinkgoHelper()
	rule := ruleset.Compile(build.MakeRule("link").UID("u-link").Selector("a",
		"b").Condition("Ready").EvictionGuard(60).Obj(), nil, time.Now())
	changed := &[]string{}
	installed, err := server.ApplyConfig(ctx, nil, cluster.ValidatingWebhooks)
	Expect(err).NotTo(HaveOccurred())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "node-controller"}}
	Expect(client.IgnoreAlreadyExists(server.Client.Create(ctx, account))).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		for _, o := range installed {
			Expect(client.IgnoreNotFound(server.Client.Delete(ctx, o))).To(Succeed())
		}
	})
	if len(users) == 0 {
		users = guard.DefaultUsers()
	}
	return &Monitor{
		Live: server.Client, Rules: func() *ruleset.Set { return ruleset.NewSet(rule) }, Users: users,
		Configuration: configuration,
		Changed:       func(rule string) { *changed = append(*changed, rule) },
		Clock:         clocktesting.NewFakePassiveClock(time.Now()),
	}, rule, changed
}

var _ = Describe("Why a guard cannot be relied on", func() {
	reason := func(p *guard.Problem) string {
		if p == nil {
			return ""
		}
		return p.Reason
	}

	It("is nothing, where all is well", func(ctx context.Context) {
		m, rule, changed := monitor(ctx)
		Expect(reason(m.Problem(rule))).To(Equal(guard.ReasonNotLookedAt))
		Expect(m.Look(ctx)).To(Succeed())
		Expect(m.Problem(rule)).To(BeNil())
		Expect(*changed).To(Equal([]string{"link"}))
		Expect(m.Look(ctx)).To(Succeed())
		Expect(*changed).To(HaveLen(1), "nothing has changed")
	})

	It("is that no webhooks are served", func(ctx context.Context) {
		m, rule, _ := monitor(ctx)
		m.Configuration = ""
		Expect(reason(m.Problem(rule))).To(Equal(guard.ReasonWebhookOff))
	})

	It("is that the API server does not know the webhook", func(ctx context.Context) {
		m, rule, _ := monitor(ctx)
		m.Configuration = "other"
		Expect(m.Look(ctx)).To(Succeed())
		Expect(reason(m.Problem(rule))).To(Equal(guard.ReasonWebhookMissing))
	})

	It("is that the API server does not ask about a user", func(ctx context.Context) {
		m, rule, _ := monitor(ctx, guard.NodeController, guard.ControllerManager, "jane")
		Expect(m.Look(ctx)).To(Succeed())
		Expect(m.Problem(rule)).To(HaveValue(HaveField("Message", ContainSubstring("does not have jane"))))
	})

	It("is that the node controller has no account, if no other user is guarded against", func(ctx context.Context) {
		m, rule, _ := monitor(ctx, guard.NodeController)
		both, ruleOfBoth, _ := monitor(ctx, guard.NodeController, guard.ControllerManager)
		Expect(server.Client.Delete(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system",
			Name: "node-controller"}})).To(Succeed())
		Expect(m.Look(ctx)).To(Succeed())
		Expect(reason(m.Problem(rule))).To(Equal(guard.ReasonUnknownUser))
		Expect(both.Look(ctx)).To(Succeed())
		Expect(both.Problem(ruleOfBoth)).To(BeNil())
	})

	It("is, for an hour, that a guarded pod was evicted", func(ctx context.Context) {
		m, rule, changed := monitor(ctx)
		Expect(m.Look(ctx)).To(Succeed())
		m.Bypassed(rule, build.MakePod("default", "web-0").Node("n1").Obj())
		Expect(*changed).To(Equal([]string{"link", "link"}))
		Expect(m.Problem(rule)).To(HaveValue(HaveField("Message",
			ContainSubstring("pod default/web-0 was evicted from node n1"))))
		m.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(61 * time.Minute))
		Expect(m.Look(ctx)).To(Succeed())
		Expect(m.Problem(rule)).To(BeNil())
		Expect(*changed).To(HaveLen(3), "the rule's status must no longer say so")
	})
})

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

var server *cluster.Cluster

func TestGuard(t *testing.T) {
	suite.Run(t, "The eviction guard's webhook")
}

var _ = BeforeSuite(func() { server = suite.Server() })

const configuration = "nodegate-webhook"

// keeper is a Keeper for one rule, with the shipped configuration and the node controller's account on the API server.
func keeper(ctx context.Context, users ...string) (*Keeper, *ruleset.Rule, *[]string) {
	GinkgoHelper()
	rule := ruleset.Compile(build.MakeRule("link").UID("u-link").Selector("a", "b").Condition("Ready").EvictionGuard(60, users...).Obj(), nil, time.Now())
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
	return &Keeper{
		Live: server.Client, Writer: server.Client, Rules: func() *ruleset.Set { return ruleset.NewSet(rule) }, Configuration: configuration,
		Changed: func(rule string) { *changed = append(*changed, rule) }, Clock: clocktesting.NewFakePassiveClock(time.Now()),
	}, rule, changed
}

func expression(ctx context.Context) string {
	GinkgoHelper()
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	Expect(server.Client.Get(ctx, client.ObjectKey{Name: configuration}, c)).To(Succeed())
	for _, w := range c.Webhooks {
		if w.Name == WebhookName {
			Expect(w.MatchConditions).To(HaveLen(1))
			Expect(w.ClientConfig.Service).NotTo(BeNil(), "nothing else is touched")
			return w.MatchConditions[0].Expression
		}
	}
	Fail("the webhook is gone")
	return ""
}

var _ = Describe("The users whom the API server asks about", func() {
	It("are those whom rules name, and what the manifests say when no rule does", func(ctx context.Context) {
		k, _, _ := keeper(ctx, "jane", `"; true || "`)
		shipped := expression(ctx)
		Expect(k.Look(ctx)).To(Succeed())
		Expect(expression(ctx)).To(Equal(`request.userInfo.username in ["\"; true || \"", "jane"]`))
		k.Rules = func() *ruleset.Set { return ruleset.NewSet() }
		Expect(k.Look(ctx)).To(Succeed())
		Expect(expression(ctx)).To(Equal(shipped))
	})

	It("are not written where they are right", func(ctx context.Context) {
		k, _, _ := keeper(ctx)
		k.Writer = nil
		Expect(k.Look(ctx)).To(Succeed())
	})
})

var _ = Describe("Why a guard cannot be relied on", func() {
	reason := func(p *Problem) string {
		if p == nil {
			return ""
		}
		return p.Reason
	}

	It("is nothing, where all is well", func(ctx context.Context) {
		k, rule, changed := keeper(ctx)
		Expect(reason(k.Problem(rule))).To(Equal(ReasonNotLookedAt))
		Expect(k.Look(ctx)).To(Succeed())
		Expect(k.Problem(rule)).To(BeNil())
		Expect(*changed).To(Equal([]string{"link"}))
		Expect(k.Look(ctx)).To(Succeed())
		Expect(*changed).To(HaveLen(1), "nothing has changed")
	})

	It("is that no webhooks are served", func(ctx context.Context) {
		k, rule, _ := keeper(ctx)
		k.Configuration = ""
		Expect(reason(k.Problem(rule))).To(Equal(ReasonWebhookOff))
	})

	It("is that the API server does not know the webhook", func(ctx context.Context) {
		k, rule, _ := keeper(ctx)
		k.Configuration = "other"
		Expect(k.Look(ctx)).To(Succeed())
		Expect(reason(k.Problem(rule))).To(Equal(ReasonWebhookMissing))
	})

	It("is that the node controller has no account, where the rule names nobody else", func(ctx context.Context) {
		k, rule, _ := keeper(ctx, v1alpha1.DefaultGuardedUser)
		both, ruleOfBoth, _ := keeper(ctx, v1alpha1.DefaultGuardedUser, guard.ControllerManager)
		Expect(server.Client.Delete(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "node-controller"}})).To(Succeed())
		Expect(k.Look(ctx)).To(Succeed())
		Expect(reason(k.Problem(rule))).To(Equal(ReasonUnknownUser))
		Expect(both.Look(ctx)).To(Succeed())
		Expect(both.Problem(ruleOfBoth)).To(BeNil())
	})

	It("is, for an hour, that a guarded pod was evicted", func(ctx context.Context) {
		k, rule, changed := keeper(ctx)
		Expect(k.Look(ctx)).To(Succeed())
		k.Bypassed(rule, build.MakePod("default", "web-0").Node("n1").Obj())
		Expect(*changed).To(Equal([]string{"link", "link"}))
		Expect(k.Problem(rule)).To(HaveValue(HaveField("Message", ContainSubstring("pod default/web-0 was evicted from node n1"))))
		k.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(61 * time.Minute))
		Expect(k.Problem(rule)).To(BeNil())
	})
})

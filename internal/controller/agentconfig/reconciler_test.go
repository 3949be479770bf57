// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/api/v1alpha1"
	agentcfg "github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/watch"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

var server *cluster.Cluster

// account is the name of the agents' ServiceAccount.
const account = "agent"

func TestAgentConfig(t *testing.T) {
	suite.Run(t, "Controller of the agents' configuration")
}

var _ = BeforeSuite(func() { server = suite.Server() })

// desk is a Reconciler on the real API server, called directly, with the rules that a test gives it.
type desk struct {
	*Reconciler
	ctx      context.Context
	recorder *events.FakeRecorder
	rules    []*build.RuleWrapper
	requests int
}

func newDesk(ctx context.Context) *desk {
	d, key := &desk{ctx: ctx}, newKey(ctx)
	Expect(server.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: account, Annotations: map[string]string{"theirs": "x"}}})).To(Succeed())
	d.restart(key)
	return d
}

// newKey is that of a ConfigMap in a namespace of its own.
func newKey(ctx context.Context) client.ObjectKey {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "desk-"}}
	Expect(server.Client.Create(ctx, namespace)).To(Succeed())
	return client.ObjectKey{Namespace: namespace.Name, Name: "agents"}
}

// restart is a new process.
func (d *desk) restart(key client.ObjectKey) {
	d.recorder = events.NewFakeRecorder(10)
	counting := interceptor.NewClient(server.Client, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			d.requests++
			return c.Apply(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			d.requests++
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	d.Reconciler = &Reconciler{Client: counting, Recorder: d.recorder, Key: key,
		Account: client.ObjectKey{Namespace: key.Namespace, Name: account},
		Rules:   func() *ruleset.Set { return set(d.rules...) }}
}

func (d *desk) reconcile() {
	GinkgoHelper()
	_, err := d.Reconcile(d.ctx, reconcile.Request{NamespacedName: d.Key})
	Expect(err).NotTo(HaveOccurred())
}

func (d *desk) stored() *corev1.ConfigMap {
	GinkgoHelper()
	cm := &corev1.ConfigMap{}
	Expect(server.Client.Get(d.ctx, d.Key, cm)).To(Succeed())
	return cm
}

// may are the conditions that agents may publish.
func (d *desk) may() string {
	GinkgoHelper()
	o := &corev1.ServiceAccount{}
	Expect(server.Client.Get(d.ctx, d.Account, o)).To(Succeed())
	Expect(o.Annotations).To(And(HaveLen(2), HaveKeyWithValue("theirs", "x")))
	return o.Annotations[agentcfg.ConditionsAnnotation]
}

// names are the rules in the stored configuration.
func (d *desk) names() []string {
	GinkgoHelper()
	file, err := agentcfg.Decode([]byte(d.stored().Data[agentcfg.Key]))
	Expect(err).NotTo(HaveOccurred())
	names := []string{}
	for _, r := range file.Rules {
		names = append(names, r.Name)
	}
	return names
}

func prober(name string, conditions ...string) *build.RuleWrapper {
	r := build.MakeRule(name).UID("uid-"+name).Created(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Selector("pool", "a").
		Condition("example.com/A").Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule)
	for _, c := range conditions {
		r.Probe(c, 9099)
	}
	return r
}

var _ = Describe("The agents' configuration", func() {
	It("is written once, and again only when the rules make another one", func(ctx context.Context) {
		d := newDesk(ctx)
		d.reconcile()
		Expect(d.names()).To(BeEmpty(), "there are no rules, and agents are told so")
		d.rules = []*build.RuleWrapper{prober("b", "example.com/B", "example.com/A"), prober("a", "example.com/A"),
			prober("none")}
		d.reconcile()
		Expect(d.names()).To(Equal([]string{"a", "b"}))
		Expect(d.may()).To(Equal("example.com/A\nexample.com/B"))
		Expect(d.requests).To(Equal(4), "the ConfigMap and the ServiceAccount, twice")

		version := d.stored().ResourceVersion
		slices.Reverse(d.rules)
		d.reconcile()
		d.restart(d.Key)
		d.reconcile()
		Expect(d.requests).To(Equal(4))
		Expect(d.stored().ResourceVersion).To(Equal(version))
		Expect(testutil.ToFloat64(current)).To(BeEquivalentTo(1))
	})

	It("is restored when a user edits or deletes it; additions of others stay", func(ctx context.Context) {
		d := newDesk(ctx)
		d.rules = []*build.RuleWrapper{prober("a", "example.com/A")}
		d.reconcile()
		edited := d.stored()
		good := edited.Data[agentcfg.Key]
		edited.Data = map[string]string{agentcfg.Key: "{broken", "theirs": "x"}
		Expect(server.Client.Update(ctx, edited)).To(Succeed())
		d.restart(d.Key)
		d.reconcile()
		Expect(d.stored().Data).To(Equal(map[string]string{agentcfg.Key: good, "theirs": "x"}))
		Expect(server.Client.Delete(ctx, d.stored())).To(Succeed())
		d.reconcile()
		Expect(d.stored().Data[agentcfg.Key]).To(Equal(good))
	})

	It("has of an invalid rule what it had, after a restart, too", func(ctx context.Context) {
		d := newDesk(ctx)
		d.rules = []*build.RuleWrapper{prober("invalid", "example.com/I").Health("kubelet")}
		d.reconcile()
		d.rules[0].MaxUnavailable("nonsense").Probe("example.com/Later", 1)
		for range 2 {
			d.reconcile()
			Expect(d.names()).To(Equal([]string{"invalid"}))
			Expect(d.may()).To(Equal("example.com/I"))
			Expect(d.stored().Data[agentcfg.Key]).To(ContainSubstring(`"health"`))
			d.restart(d.Key)
		}
	})

	It("leaves out only the largest rules where it would not fit, and says so once", func(ctx context.Context) {
		d := newDesk(ctx)
		huge := func(name string, bytes int) *build.RuleWrapper {
			r := prober(name, "example.com/"+name)
			r.Spec.Probes[0].TCPSocket.Host = strings.Repeat("x", bytes)
			return r
		}
		d.rules = []*build.RuleWrapper{huge("huge", agentcfg.MaxSize), prober("small", "example.com/A"),
			huge("large", agentcfg.MaxSize/2), huge("larger", agentcfg.MaxSize/2+100)}
		d.reconcile()
		d.reconcile()
		Expect(d.names()).To(ConsistOf("small", "large"))
		Expect(testutil.ToFloat64(current)).To(BeZero())
		said := suite.Events(d.recorder)
		Expect(said).To(HaveLen(1))
		Expect(said[0]).To(And(HavePrefix("Warning AgentConfigTooLarge"),
			MatchRegexp(`the 2 largest rules: huge \(\d+ bytes\), larger \(\d+ bytes\)`)))
		d.rules = append(d.rules, prober("new", "example.com/B"))
		d.reconcile()
		Expect(d.names()).To(ConsistOf("small", "large", "new"), "other rules still reach the agents")
		d.rules = d.rules[1:3]
		d.reconcile()
		Expect(testutil.ToFloat64(current)).To(BeEquivalentTo(1))
		Expect(suite.Events(d.recorder)).To(BeEmpty())
	})

	It("is tried again where it cannot be written", func(ctx context.Context) {
		d := newDesk(ctx)
		d.Key.Namespace = "does-not-exist"
		_, err := d.Reconcile(ctx, reconcile.Request{NamespacedName: d.Key})
		Expect(err).To(MatchError(ContainSubstring("writing the agents' configuration to ConfigMap does-not-exist/agents")))
		Expect(testutil.ToFloat64(current)).To(BeZero())
	})
})

// run runs the controller with a manager of its own until the test ends.
func run(ctx context.Context, cfg *rest.Config, key client.ObjectKey) ctrl.Manager {
	GinkgoHelper()
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: cluster.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		// as the operator has it
		Client: client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
	})
	Expect(err).NotTo(HaveOccurred())
	running, stop := context.WithCancel(ctx)
	rules := watch.NewRules(clock.RealClock{})
	Expect(rules.SetupWithCache(running, mgr.GetCache())).To(Succeed())
	r := &Reconciler{Recorder: events.NewFakeRecorder(10), Key: key, Account: client.ObjectKey{Namespace: key.Namespace,
		Name: account}}
	Expect(r.SetupWithManager(mgr, rules)).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	DeferCleanup(func() {
		stop()
		Expect(<-ended).To(Succeed())
	})
	return mgr
}

var _ = Describe("The controller", func() {
	It("delays nothing else while it has no permissions, and continues when it gets them", func(ctx context.Context) {
		const user = "agentconfig-test"
		grant := func(role *rbacv1.ClusterRole) {
			Expect(server.Client.Create(ctx, role)).To(Succeed())
			Expect(server.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName,
					Kind: "ClusterRole", Name: role.Name},
				Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
			})).To(Succeed())
		}
		grant(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "agentconfig-test-rules"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.Served().Name}, Resources: []string{"nodereadinessrules"},
				Verbs: []string{"list", "watch"}}}})
		key := newKey(ctx)
		cfg := rest.CopyConfig(server.Config())
		cfg.Impersonate.UserName = user
		mgr := run(ctx, cfg, key)
		Eventually(func(g Gomega) {
			g.Expect(testutil.ToFloat64(current)).To(BeZero())
			synced, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			g.Expect(mgr.GetCache().WaitForCacheSync(synced)).To(BeTrue())
		}).Should(Succeed(), "what others wait for is there")
		grant(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "agentconfig-test-configmaps"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{key.Name},
					Verbs: []string{"get", "list", "watch", "create", "patch"}},
				{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{account},
					Verbs: []string{"get", "list", "watch", "patch"}}}})
		Eventually(func() error { return server.Client.Get(ctx, key, &corev1.ConfigMap{}) }).WithTimeout(2 * time.Minute).
			Should(Succeed())
	})

	It("follows the rules and its ConfigMap", func(ctx context.Context) {
		key := newKey(ctx)
		run(ctx, server.Config(), key)

		holds := func(substring string) func() error {
			return func() error {
				cm := &corev1.ConfigMap{}
				if err := server.Client.Get(ctx, key, cm); err != nil {
					return err
				}
				if !strings.Contains(cm.Data[agentcfg.Key], substring) {
					return fmt.Errorf("it holds %s", cm.Data[agentcfg.Key])
				}
				return nil
			}
		}
		Eventually(holds(`"rules": []`)).Should(Succeed())
		rule := prober("followed", "example.com/Followed").Obj()
		rule.UID, rule.CreationTimestamp = "", metav1.Time{}
		Expect(server.Client.Create(ctx, rule)).To(Succeed())
		Eventually(holds("example.com/Followed")).Should(Succeed())
		agents := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: account}}
		allowed := func() (string, error) {
			err := server.Client.Get(ctx, client.ObjectKeyFromObject(agents), agents)
			return agents.Annotations[agentcfg.ConditionsAnnotation], err
		}
		Expect(server.Client.Create(ctx, agents.DeepCopy())).To(Succeed())
		Eventually(allowed).Should(Equal("example.com/Followed"), "agents that are installed later")
		agents.Annotations = map[string]string{}
		Expect(server.Client.Update(ctx, agents)).To(Succeed())
		Eventually(allowed).Should(Equal("example.com/Followed"), "it is restored")
		Expect(server.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace,
			Name: key.Name}})).To(Succeed())
		Eventually(holds("example.com/Followed")).Should(Succeed(), "it is restored")
		Expect(server.Client.Delete(ctx, rule)).To(Succeed())
		Eventually(holds(`"rules": []`)).Should(Succeed())
	})
})

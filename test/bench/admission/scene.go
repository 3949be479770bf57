// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/admission/node"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	poolKey, pool      = "example.com/pool", "bench"
	namespace, podNode = "default", "pods"
	// annotations are how many a node has beside its own three.
	annotations = 15
)

// engine is what taints nodes at creation.
type engine string

const (
	nothing engine = ""
	// guarded: only the policies that protect records are installed.
	guarded engine = "record guard only"
	policy  engine = "policy"
	webhook engine = "webhook"
	// operated: the operator runs, with all webhooks and policies.
	operated engine = "all webhooks and policies"
)

// setup is what is installed. The zero value is nothing.
type setup struct {
	engine engine
	rules  int
}

func (s setup) String() string {
	switch {
	case s.engine == nothing:
		return "nothing"
	case s.rules == 0:
		return string(s.engine)
	case s.rules == 1:
		return fmt.Sprintf("%s, 1 rule", s.engine)
	}
	return fmt.Sprintf("%s, %d rules", s.engine, s.rules)
}

// nodeSetups returns the setups for requests about nodes. No operator runs, which would write to the nodes.
func nodeSetups(rules []int) []setup {
	out := []setup{{}, {engine: guarded}}
	for _, e := range []engine{policy, webhook} {
		for _, n := range rules {
			out = append(out, setup{e, n})
		}
	}
	return out
}

var podSetups = []setup{{}, {engine: operated}}

// scene is a control plane, the clients that send requests, and a server of the webhook for nodes.
type scene struct {
	cluster                             *cluster.Cluster
	kubelet, podKubelet, nodeController kubernetes.Interface
	stop                                context.CancelFunc
	stopped                             chan error
	url                                 string
	ca                                  []byte
	rules                               atomic.Pointer[[]ruleset.AdmissionRule]
	batch                               int
}

func setUp(ctx context.Context) (_ *scene, err error) {
	s := &scene{}
	s.rules.Store(&[]ruleset.AdmissionRule{})
	if s.cluster, err = cluster.Start(ctx, cluster.Options{CRD: true, Log: os.Stderr,
		APIServerArgs: []string{"--profiling"}}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for user, c := range map[string]*kubernetes.Interface{
		// Not the kubelet of a certain node, which could create and patch only that one.
		"bench-kubelet": &s.kubelet, "system:node:" + podNode: &s.podKubelet,
		"system:serviceaccount:kube-system:node-controller": &s.nodeController,
	} {
		groups := []string{"system:masters"}
		if strings.HasPrefix(user, "system:node:") {
			groups = []string{"system:nodes"}
		}
		config, err := s.cluster.ConfigFor(user, groups...)
		if err != nil {
			return nil, err
		}
		config.QPS = -1
		if *c, err = kubernetes.NewForConfig(config); err != nil {
			return nil, err
		}
	}
	all := s.cluster.Config()
	all.QPS = -1
	if s.cluster.Clientset, err = kubernetes.NewForConfig(all); err != nil {
		return nil, err
	}
	return s, s.serve()
}

// serve serves the webhook for nodes with the rules of the setup.
func (s *scene) serve() error {
	ports, err := cluster.TakePorts(1)
	if err != nil {
		return err
	}
	ca, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(ca, key)
	if err != nil {
		return err
	}
	server := &admission.Server{
		Address:     fmt.Sprintf("127.0.0.1:%d", ports[0]),
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil },
		Handlers: []admission.Handler{&node.Webhook{Clock: clock.RealClock{},
			Rules:  func() []ruleset.AdmissionRule { return *s.rules.Load() },
			Acting: func() node.Kind { return node.EngineWebhook }}},
	}
	s.url, s.ca, s.stopped = fmt.Sprintf("https://localhost:%d", ports[0]), ca, make(chan error, 1)
	var running context.Context
	running, s.stop = context.WithCancel(context.Background())
	go func() { s.stopped <- server.Start(running) }()
	return cluster.Poll(running, cluster.Limit, func() error { return server.Ready(nil) })
}

// install makes a setup, and returns the function that removes it.
func (s *scene) install(ctx context.Context, now setup) (func(context.Context) error, error) {
	switch now.engine {
	case nothing:
		return func(context.Context) error { return nil }, nil
	case operated:
		return s.installOperator(ctx)
	}
	var installed []client.Object
	remove := func(ctx context.Context) error {
		for _, o := range slices.Backward(installed) {
			if err := client.IgnoreNotFound(s.cluster.Client.Delete(ctx, o)); err != nil {
				return err
			}
		}
		s.rules.Store(&[]ruleset.AdmissionRule{})
		return s.await(ctx, setup{})
	}
	if err := s.makeRules(ctx, now.rules, &installed); err != nil {
		return nil, errors.Join(err, remove(ctx))
	}
	err := s.apply(ctx, nil, cluster.RecordGuard, &installed)
	switch {
	case err == nil && now.engine == policy:
		err = s.apply(ctx, nil, cluster.NodeAdmissionPolicy, &installed)
	case err == nil && now.engine == webhook:
		err = s.apply(ctx, cluster.Local(s.url, s.ca), cluster.MutatingWebhooks, &installed)
	}
	if err == nil {
		err = cluster.AwaitPolicies(ctx, s.cluster.Client)
	}
	if err == nil {
		err = s.await(ctx, now)
	}
	if err != nil {
		return nil, errors.Join(err, remove(ctx))
	}
	return remove, nil
}

func (s *scene) apply(ctx context.Context, edit func(*unstructured.Unstructured) error, file string,
	installed *[]client.Object) error {
	objects, err := s.cluster.ApplyConfig(ctx, edit, file)
	for _, o := range objects {
		*installed = append(*installed, o)
	}
	return err
}

// makeRules creates rules that match all nodes of the bench, and gives them to the webhook.
func (s *scene) makeRules(ctx context.Context, n int, installed *[]client.Object) error {
	var compiled []*ruleset.Rule
	for i := range n {
		name := fmt.Sprintf("bench-%d", i)
		rule := build.MakeRule(name).Condition("example.com/CNIReady").Selector(poolKey, pool).
			Taint("readiness.example.com/"+name, "pending", corev1.TaintEffectNoSchedule).Obj()
		if err := s.cluster.Client.Create(ctx, rule); err != nil {
			return err
		}
		*installed = append(*installed, rule)
		compiled = append(compiled, ruleset.Compile(rule, nil, time.Now()))
	}
	object, _ := ruleset.NewSet(compiled...).ForAdmission(nil)
	admitting := ruleset.CompileAdmission(object)
	s.rules.Store(&admitting)
	*installed = append(*installed, object)
	operator, err := s.cluster.As(cluster.OperatorUser, "system:masters") // a policy refuses others
	if err != nil {
		return err
	}
	return operator.Create(ctx, object)
}

// await waits until a new node gets exactly the taints of the setup.
func (s *scene) await(ctx context.Context, now setup) error {
	return cluster.Poll(ctx, cluster.Limit, func() error {
		n := build.MakeNode("await").Label(poolKey, pool).Obj()
		if err := s.cluster.Client.Create(ctx, n, client.DryRunAll); err != nil {
			return err
		}
		got := 0
		for _, t := range n.Spec.Taints {
			if strings.HasPrefix(t.Key, "readiness.example.com/") {
				got++
			}
		}
		if got != now.rules {
			return fmt.Errorf("a new node gets %d taints, want %d", got, now.rules)
		}
		return nil
	})
}

// installOperator starts the operator with all its webhooks and policies, and a rule with podAdmission: Deny and an
// eviction guard.
func (s *scene) installOperator(ctx context.Context) (func(context.Context) error, error) {
	operator, err := s.cluster.StartOperator(ctx, cluster.OperatorOptions{Webhooks: true, Policies: true})
	if err != nil {
		return nil, err
	}
	var installed []client.Object
	remove := func(ctx context.Context) error {
		var errs []error
		for _, o := range slices.Backward(installed) {
			errs = append(errs, client.IgnoreNotFound(s.cluster.Client.Delete(ctx, o)), s.awaitGone(ctx, o))
		}
		for _, file := range []string{cluster.NodeAdmissionPolicy, cluster.RecordGuard, cluster.MutatingWebhooks,
			cluster.ValidatingWebhooks} {
			objects, err := cluster.ReadConfig(file)
			errs = append(errs, err)
			for _, o := range objects {
				errs = append(errs, client.IgnoreNotFound(s.cluster.Client.Delete(ctx, o)))
			}
		}
		return errors.Join(append(errs, operator.Stop())...)
	}
	err = s.installDeny(ctx, &installed)
	if err == nil {
		err = cluster.AwaitPolicies(ctx, s.cluster.Client)
	}
	if err != nil {
		return nil, errors.Join(err, remove(ctx))
	}
	return remove, nil
}

// awaitGone waits until an object is deleted: a rule has a finalizer that the operator removes.
func (s *scene) awaitGone(ctx context.Context, o client.Object) error {
	return cluster.Poll(ctx, cluster.Limit, func() error {
		err := s.cluster.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil {
			return fmt.Errorf("%s is not gone yet", o.GetName())
		}
		return client.IgnoreNotFound(err)
	})
}

// installDeny registers the webhook for bindings beside the operator's others, which has filled in its certificate, and
// creates the rule and its node.
func (s *scene) installDeny(ctx context.Context, installed *[]client.Object) error {
	raw, err := os.ReadFile(filepath.Join(cluster.Root(), "config", "components", "pod-admission", "webhook_patch.yaml"))
	if err != nil {
		return err
	}
	var patch []struct {
		Value admissionregistrationv1.ValidatingWebhook
	}
	if err := yaml.Unmarshal(raw, &patch); err != nil {
		return err
	}
	if _, err := s.cluster.ApplyConfig(ctx, nil, "components/pod-admission/role.yaml"); err != nil {
		return err
	}
	bindings := patch[0].Value
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err = cluster.Poll(ctx, cluster.Limit, func() error {
		if err := s.cluster.Client.Get(ctx, client.ObjectKey{Name: "nodegate-webhook"}, config); err != nil {
			return err
		}
		by := config.Webhooks[0].ClientConfig
		if len(by.CABundle) == 0 || by.URL == nil {
			return errors.New("the operator has not filled in its certificate yet")
		}
		server, err := url.Parse(*by.URL)
		if err != nil {
			return err
		}
		server.Path = *bindings.ClientConfig.Service.Path
		bindings.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new(server.String()), CABundle: by.CABundle}
		config.Webhooks = append(config.Webhooks, bindings)
		return s.cluster.Client.Update(ctx, config)
	})
	if err != nil {
		return err
	}
	n := cluster.NewNode(podNode, cluster.NodeOptions{Unmanaged: true, Labels: map[string]string{poolKey: pool}})
	rule := build.MakeRule("bench").Condition("Ready").Selector(poolKey, pool).EvictionGuard(300).
		Taint("readiness.example.com/bench", "pending", corev1.TaintEffectNoSchedule).Obj()
	rule.Spec.PodAdmission = v1alpha1.PodAdmissionDeny
	for _, o := range []client.Object{rule, n} {
		if err := s.cluster.Client.Create(ctx, o); err != nil {
			return err
		}
		*installed = append(*installed, o)
	}
	return cluster.Poll(ctx, cluster.Limit, func() error {
		if err := s.cluster.Client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		if cluster.HasTaint(n, rule.Spec.Taint.Key) {
			return errors.New("the node is still held")
		}
		return nil
	})
}

func (s *scene) close() error {
	var errs []error
	if s.stop != nil {
		s.stop()
		errs = append(errs, <-s.stopped)
	}
	return errors.Join(append(errs, s.cluster.Stop())...)
}

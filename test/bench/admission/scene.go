// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/admission/node"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/text"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	poolKey, pool      = "example.com/pool", "bench"
	namespace, podNode = "default", "pods"
	// annotations are how many a node has beside its own two.
	annotations = 15
)

// engine is what taints nodes at creation.
type engine string

const (
	nothing engine = "nothing"
	// guarded: only the policies that protect records are installed.
	guarded engine = "record guard only"
	policy  engine = "policy"
	webhook engine = "webhook"
	// operated: the operator runs, with all webhooks and policies.
	operated engine = "all webhooks and policies"
)

// setup is what is installed.
type setup struct {
	engine engine
	rules  int
}

func (s setup) String() string {
	if s.rules == 0 {
		return string(s.engine)
	}
	return string(s.engine) + ", " + text.Plural(s.rules, "rule", "rules")
}

// nodeSetups returns the setups for requests about nodes. No operator runs, which would write to the nodes.
func nodeSetups(rules []int) []setup {
	out := []setup{{engine: nothing}, {engine: guarded}}
	for _, e := range []engine{policy, webhook} {
		for _, n := range rules {
			out = append(out, setup{e, n})
		}
	}
	return out
}

var podSetups = []setup{{engine: nothing}, {engine: operated}}

// scene is a control plane with a setup, the clients that send requests, and the server of the webhook for nodes.
type scene struct {
	cluster                             *cluster.Cluster
	kubelet, podKubelet, nodeController kubernetes.Interface
	rules                               []ruleset.AdmissionRule // of the webhook
	stop                                context.CancelFunc      // of its server, nil without one
	stopped                             chan error
	round                               int
}

// setUp returns a scene that must be closed even if there is an error, unless it is nil.
func setUp(ctx context.Context, now setup) (s *scene, err error) {
	s = &scene{}
	o := cluster.Options{CRD: true, APIServerArgs: []string{"--profiling"}}
	if s.cluster, err = cluster.Start(ctx, o); err != nil {
		return nil, err
	}
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
			return s, err
		}
		if *c, err = kubernetes.NewForConfig(config); err != nil {
			return s, err
		}
	}
	return s, s.install(ctx, now)
}

// install makes the setup.
func (s *scene) install(ctx context.Context, now setup) error {
	switch now.engine {
	case nothing:
		return nil
	case operated:
		return s.installOperator(ctx)
	}
	if err := s.makeRules(ctx, now.rules); err != nil {
		return err
	}
	_, err := s.cluster.ApplyConfig(ctx, nil, cluster.RecordGuard)
	switch {
	case err == nil && now.engine == policy:
		_, err = s.cluster.ApplyConfig(ctx, nil, cluster.NodeAdmissionPolicy)
	case err == nil && now.engine == webhook:
		err = s.serve(ctx)
	}
	if err != nil {
		return err
	}
	if err := cluster.AwaitPolicies(ctx, s.cluster.Client); err != nil {
		return err
	}
	return s.await(ctx, now)
}

// serve serves the webhook for nodes with the rules of the setup, and registers it.
func (s *scene) serve(ctx context.Context) error {
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
			Rules:  func() []ruleset.AdmissionRule { return s.rules },
			Acting: func() node.Kind { return node.EngineWebhook }}},
	}
	var running context.Context
	running, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.stopped = make(chan error, 1)
	go func() { s.stopped <- server.Start(running) }()
	if err := cluster.Poll(ctx, cluster.Limit, func() error { return server.Ready(nil) }); err != nil {
		return err
	}
	url := fmt.Sprintf("https://localhost:%d", ports[0])
	_, err = s.cluster.ApplyConfig(ctx, cluster.Local(url, ca), cluster.MutatingWebhooks)
	return err
}

// makeRules creates rules that match all nodes of the bench, and gives them to the webhook.
func (s *scene) makeRules(ctx context.Context, n int) error {
	var compiled []*ruleset.Rule
	for i := range n {
		name := fmt.Sprintf("bench-%d", i)
		rule := build.MakeRule(name).Condition("example.com/CNIReady").Selector(poolKey, pool).
			Taint("readiness.example.com/"+name, "pending", corev1.TaintEffectNoSchedule).Obj()
		if err := s.cluster.Client.Create(ctx, rule); err != nil {
			return err
		}
		compiled = append(compiled, ruleset.Compile(rule, nil, time.Now()))
	}
	object, _ := ruleset.NewSet(compiled...).ForAdmission(nil)
	s.rules = ruleset.CompileAdmission(object)
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
// eviction guard that keeps endpoints.
func (s *scene) installOperator(ctx context.Context) error {
	if err := s.cluster.ApplyEndpointPolicy(ctx); err != nil {
		return err
	}
	_, err := s.cluster.StartOperator(ctx, cluster.OperatorOptions{Webhooks: true, Policies: true})
	if err != nil {
		return err
	}
	if err := s.installDeny(ctx); err != nil {
		return err
	}
	return cluster.AwaitPolicies(ctx, s.cluster.Client)
}

// installDeny registers the webhook for bindings beside the operator's others, which has filled in its certificate, and
// creates the rule and its node.
func (s *scene) installDeny(ctx context.Context) error {
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
		url := (*by.URL)[:strings.LastIndex(*by.URL, "/")] + *patch[0].Value.ClientConfig.Service.Path
		bindings.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: by.CABundle}
		config.Webhooks = append(config.Webhooks, bindings)
		return s.cluster.Client.Update(ctx, config)
	})
	if err != nil {
		return err
	}
	n := cluster.NewNode(podNode, cluster.NodeOptions{Unmanaged: true, Labels: map[string]string{poolKey: pool}})
	rule := build.MakeRule("bench").Condition("Ready").Selector(poolKey, pool).EvictionGuard(600).Endpoints(50, 600).
		Taint("readiness.example.com/bench", "pending", corev1.TaintEffectNoSchedule).Obj()
	rule.Spec.PodAdmission = v1alpha1.PodAdmissionDeny
	for _, o := range []client.Object{rule, n} {
		if err := s.cluster.Client.Create(ctx, o); err != nil {
			return err
		}
	}
	return cluster.Poll(ctx, cluster.Limit, func() error {
		if err := s.cluster.Client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		if cluster.HasTaint(n, rule.Spec.Taint.Key) {
			return errors.New("the node is still held")
		}
		kept := &endpointsv1alpha1.KeptEndpoints{}
		if err := s.cluster.Client.Get(ctx, client.ObjectKey{Name: endpointsv1alpha1.Name}, kept); err != nil {
			return err
		}
		if len(kept.Rules) == 0 || len(kept.Rules[0].Nodes) == 0 {
			return errors.New("the endpoints of the node are not kept yet")
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

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/admission"
	nodeadmission "github.com/nodegate/nodegate/internal/admission/node"
	"github.com/nodegate/nodegate/internal/controller"
	"github.com/nodegate/nodegate/internal/controller/node"
	"github.com/nodegate/nodegate/internal/controller/rule"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/guard/eviction"
	"github.com/nodegate/nodegate/internal/guard/webhook"
	"github.com/nodegate/nodegate/internal/version"
	"github.com/nodegate/nodegate/internal/watch"
)

// leaseName is the name of the lease by which replicas elect a leader.
const leaseName = "nodegate.readiness.node.x-k8s.io"

// run runs the operator until the context ends.
func run(ctx context.Context, o *options) error {
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.logging)))
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w (give --kubeconfig, or set KUBECONFIG)", err)
	}
	mgr, err := ctrl.NewManager(restConfig(cfg, &o.client), managerOptions(o))
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	rules := watch.NewRules(clock.RealClock{})
	if err := rules.SetupWithCache(ctx, mgr.GetCache()); err != nil {
		return fmt.Errorf("%w (is the CustomResourceDefinition %s installed? see config/crd)", err, crd.Name)
	}
	// Nodes are cached on every replica, so that the next leader need not read them first.
	if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	crdSeen, err := watch.FollowCRD(ctx, mgr.GetCache(), rules)
	if err != nil {
		return err
	}
	recorder, err := newRecorder(ctx, mgr.GetConfig(), mgr.GetScheme())
	if err != nil {
		return err
	}
	engine, err := addNodeAdmission(ctx, mgr, &o.webhooks)
	if err != nil {
		return err
	}
	if err := addControllers(mgr, rules, recorder, engine, o); err != nil {
		return err
	}
	if err := addAgentConfig(mgr, rules, recorder, o); err != nil {
		return err
	}
	if err := addChecks(mgr, rules, crdSeen); err != nil {
		return err
	}
	if o.webhooks.enabled {
		if err := addWebhooks(ctx, mgr, rules, engine, recorder, &o.webhooks); err != nil {
			return err
		}
	}
	metrics.Registry.MustRegister(version.BuildInfo())
	ctrl.Log.Info("Starting", "version", version.Version, "commit", version.Commit())
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

func restConfig(cfg *rest.Config, o *clientOptions) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "nodegate-manager/" + version.Version
	cfg.QPS = -1
	if o.qps > 0 {
		cfg.QPS, cfg.Burst = o.qps, o.burst
		if o.burst == 0 {
			cfg.Burst = max(1, int(2*o.qps))
		}
	}
	return cfg
}

func managerOptions(o *options) manager.Options {
	m := metricsserver.Options{BindAddress: o.serving.metricsAddress, SecureServing: o.serving.metricsSecure, CertDir: o.serving.metricsCertDir}
	if o.serving.metricsSecure {
		m.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return manager.Options{
		Scheme:                        scheme,
		Metrics:                       m,
		HealthProbeBindAddress:        o.serving.probeAddress,
		PprofBindAddress:              o.serving.pprofAddress,
		LeaderElection:                o.election.enabled,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.election.namespace,
		LeaderElectionReleaseOnCancel: true,
		Client:                        client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		Cache: cache.Options{
			NewInformer:      watch.NewInformer,
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Node{}: {Transform: node.Strip, UnsafeDisableDeepCopy: new(true)},
				&apiextensionsv1.CustomResourceDefinition{}: {Field: fields.OneTermEqualSelector("metadata.name", crd.Name)},
			},
		},
	}
}

// hub carries what the fleet reports to the controllers' queues.
type hub struct{ nodes, rules controller.Queue }

// RuleChanged implements fleet.Listener.
func (h *hub) RuleChanged(name string) { h.rules.Add(name) }

// Wake implements fleet.Listener.
func (h *hub) Wake(nodes []string) { h.nodes.Add(nodes...) }

func addControllers(mgr manager.Manager, rules *watch.Rules, recorder events.EventRecorder, engine *nodeadmission.Engine, o *options) error {
	h := &hub{}
	keeper := newKeeper(mgr, rules, &o.webhooks)
	keeper.Changed = h.RuleChanged
	state := fleet.New(h)
	escapes := node.NewEscapes(mgr.GetAPIReader(), func() bool { return engine.Acting() != nodeadmission.EngineNone })
	if err := mgr.Add(escapes); err != nil {
		return fmt.Errorf("adding the counter of escaped pods: %w", err)
	}
	reconciler := &node.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fleet: state, Recorder: recorder, Clock: clock.RealClock{},
		PolicyClaim: nodeadmission.CountPolicyTaint, Escapes: escapes,
	}
	if err := reconciler.SetupWithManager(mgr, rules, &h.nodes, o.workers.nodes); err != nil {
		return err
	}
	reports := &rule.Reconciler{Client: mgr.GetClient(), Fleet: state, Recorder: recorder, Clock: clock.RealClock{}, GuardProblem: keeper.Problem,
		Forget: func(rule string) {
			node.ForgetRule(rule)
			webhook.ForgetRule(rule)
			eviction.ForgetRule(rule)
		}}
	if err := reports.SetupWithManager(mgr, &h.rules, o.workers.rules); err != nil {
		return err
	}
	metrics.Registry.MustRegister(rule.Collector{Fleet: state})
	return addEvictions(mgr, keeper, rules, recorder, &o.webhooks)
}

// addChecks adds /healthz, and /readyz, which is true once all caches are synced and the rules can be acted on.
func addChecks(mgr manager.Manager, rules *watch.Rules, crdSeen func() bool) error {
	var synced atomic.Bool
	if err := mgr.Add(admission.EveryReplica(func(ctx context.Context) error { // runnables start when the caches are synced
		if err := rules.WaitForSync(ctx); err != nil {
			return err
		}
		synced.Store(true)
		<-ctx.Done()
		return nil
	})); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	ready := func(*http.Request) error {
		if !synced.Load() || !crdSeen() {
			return errors.New("the caches are not synced yet")
		}
		return nil
	}
	// The body of /readyz names the check that fails, and nothing else; the log says more.
	served := func(*http.Request) error {
		if p := rules.Frozen(); p != nil {
			return errors.New(p.String())
		}
		return nil
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches-synced", ready); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("served-crd-is-ours", served); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return nil
}

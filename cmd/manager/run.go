// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/admission/node"
	"github.com/nodegate/nodegate/internal/apigroup"
	"github.com/nodegate/nodegate/internal/leader"
	"github.com/nodegate/nodegate/internal/operator"
	"github.com/nodegate/nodegate/internal/serverclock"
	"github.com/nodegate/nodegate/internal/version"
)

// leaseName is the name of the lease by which replicas elect a leader.
const leaseName = "operator.nodegate.io"

// renewDeadline is how long the leader acts without a renewal of the lease, which lasts 15 seconds.
const renewDeadline = 10 * time.Second

// run runs the operator until the context ends.
func run(ctx context.Context, o *options, settings *operator.Options) error {
	limitMemory(ctx)
	cfg, err := kubeconfig()
	if err != nil {
		return err
	}
	cfg = restConfig(cfg, &o.client)
	cfg.Wrap(o.outage.watching)
	server := &serverclock.Clock{Own: clock.RealClock{}}
	cfg.Wrap(server.Wrap)
	settings.Clock = server
	if err := waitForAPIServer(ctx, cfg, o.serving.probeAddress); err != nil || ctx.Err() != nil {
		return err
	}
	managed := managerOptions(o)
	if o.election.enabled {
		settings.Lease = o.election.lease()
		managed.LeaderElectionLabels = settings.Lease.Labels
		managed.RenewDeadline = new(renewDeadline)
		cfg.Wrap((&leader.Fence{Lease: leaseName, Valid: renewDeadline}).Wrap)
	}
	managed.Cache = operator.CacheOptions(cfg)
	mgr, err := ctrl.NewManager(cfg, managed)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w: the CRD %s is missing: run manager apply-crd --api-group=%s", err, crd.Name(),
			v1alpha1.Served().Name)
	}
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	// A process without this permission goes on: it reports later that it lacks it.
	if _, err := apigroup.Check(ctx, mgr.GetAPIReader()); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	metrics.Registry.MustRegister(version.BuildInfo())
	if !o.election.enabled {
		ctrl.Log.Info("Running without leader election: this must be the only replica")
	}
	ctrl.Log.Info("Starting", "version", version.Version, "commit", version.Commit())
	served, err := serve(ctx, mgr, &o.serving)
	if err != nil {
		return err
	}
	return operator.Run(ctx, served, settings)
}

// limitMemory lets garbage be collected in time for the memory to stay below the container's limit, also after that was
// changed in place. GOMEMLIMIT in the environment takes precedence. An error is logged: the operator does not depend on
// it.
func limitMemory(ctx context.Context) {
	logger := slog.New(logr.ToSlogHandler(ctrl.Log))
	provider := func() (uint64, error) {
		limit, err := memlimit.FromCgroup()
		return goMemory(limit), err
	}
	_, _ = memlimit.Set(memlimit.WithProvider(provider), memlimit.WithRatio(1), memlimit.WithLogger(logger),
		memlimit.WithRefreshInterval(ctx, time.Minute))
}

// goMemory returns how much of a container's limit, in bytes, is for Go: 90 %, or the limit without the 64 MiB that the
// program itself needs, if that is less. The kernel counts the program's pages, about 45 MiB, too. If Go took their
// place, they would be read again and again.
func goMemory(limit uint64) uint64 {
	const program = 64 << 20
	return min(uint64(0.9*float64(limit)), max(limit, 2*program)-program)
}

// kubeconfig returns the configuration of the cluster that --kubeconfig, KUBECONFIG or the pod names.
func kubeconfig() (*rest.Config, error) {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w: set --kubeconfig or KUBECONFIG", err)
	}
	return cfg, nil
}

// settings returns the settings of the replica, or says which flags are wrong. own is the operator's namespace. Outside
// of a cluster it is empty, and the namespace of the lease takes its place for the agents' configuration.
func (o *options) settings(own string) (*operator.Options, error) {
	agents, wrongAgents := o.agents.configMap(cmp.Or(own, o.election.namespace))
	webhooks, wrongWebhooks := o.webhooks.settings()
	errs := []error{wrongWebhooks, o.webhooks.checkNamespace(own)}
	if o.workers.nodes < 1 {
		errs = append(errs, fmt.Errorf("--node-concurrent-reconciles: must be at least 1, not %d", o.workers.nodes))
	}
	if o.workers.rules < 1 {
		errs = append(errs, fmt.Errorf("--rule-concurrent-reconciles: must be at least 1, not %d", o.workers.rules))
	}
	if o.serving.objective < 0 {
		errs = append(errs, fmt.Errorf("--startup-objective: must not be negative, but is %s", o.serving.objective))
	}
	errs = append(errs, checkPrefixes("--rule-key-prefixes", o.workers.ruleKeyPrefixes),
		checkPrefixes("--transient-taint-prefixes", o.workers.transientTaintPrefixes))
	return &operator.Options{
		Namespace:        cmp.Or(o.webhooks.namespace, own, "nodegate-system"),
		NodeStateMetrics: o.serving.nodeStates, StartupObjective: o.serving.objective,
		NodeWorkers: o.workers.nodes, RuleWorkers: o.workers.rules,
		TransientTaintPrefixes: o.workers.transientTaintPrefixes, RuleKeyPrefixes: o.workers.ruleKeyPrefixes,
		NodeAdmission: node.Mode(o.webhooks.nodeAdmission), NodePolicy: o.webhooks.nodePolicy, Webhooks: webhooks,
		UnprotectedRecords: !o.webhooks.recordGuard,
		AgentConfig:        agents, AgentAccount: o.agents.account,
	}, errors.Join(append(errs, wrongAgents)...)
}

// checkPrefixes returns an error if a prefix is empty, as after a comma at the end: each key begins with it. No
// key begins with a space.
func checkPrefixes(flag string, prefixes []string) error {
	for _, p := range prefixes {
		if p == "" || p != strings.TrimSpace(p) {
			return fmt.Errorf("%s: a prefix must not be empty or have spaces around it, but one is %q", flag, p)
		}
	}
	return nil
}

// ownNamespace returns the namespace of the operator's pod; empty outside of a cluster.
func ownNamespace() string {
	raw, _ := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	return strings.TrimSpace(string(raw))
}

// restConfig returns the configuration of all requests. Like the scheduler, the operator asks for uncompressed answers:
// API servers from 1.37 on compress watches, too, which costs CPU on both sides, and saves little where both are near.
func restConfig(cfg *rest.Config, o *clientOptions) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.DisableCompression = true
	cfg.UserAgent = "nodegate-manager/" + version.Version
	cfg.QPS = -1
	if o.qps > 0 {
		cfg.QPS, cfg.Burst = o.qps, o.burst
		if o.burst <= 0 {
			cfg.Burst = max(1, int(2*o.qps))
		}
	}
	return cfg
}

func managerOptions(o *options) manager.Options {
	return manager.Options{
		Scheme:                        operator.Scheme(),
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // see serve
		PprofBindAddress:              o.serving.pprofAddress,
		LeaderElection:                o.election.enabled,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.election.namespace,
		LeaderElectionReleaseOnCancel: true,
		Client: client.Options{
			Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)},
		},
	}
}

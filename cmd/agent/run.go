// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/nodegate/nodegate/internal/agent/checks"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/agent/health"
	"github.com/nodegate/nodegate/internal/agent/nodewatch"
	"github.com/nodegate/nodegate/internal/agent/probes"
	"github.com/nodegate/nodegate/internal/version"
)

func newLogger(w io.Writer, level string) *slog.Logger {
	l, ok := parseLevel(level)
	log := slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l}))
	if !ok {
		log.Warn("Unknown log level, using info", "level", level)
	}
	return log
}

// clientLog sets the logger of client-go once in a process.
var clientLog sync.Once

// agent is a running agent.
type agent struct {
	*options
	log      *slog.Logger
	registry *prometheus.Registry
	watcher  *nodewatch.Watcher // nil: the node's name is unknown
	state    *stateFile         // nil, as well
	env      checks.Environment
	suite    atomic.Pointer[checks.Suite]
	handler  *health.Handler
	probes   *probes.Publisher // nil: the agent publishes nothing
	own      []probes.Probe    // of the reporter, which no rule configures
	loader   *config.Loader    // nil: the agent has no configuration file
	unknown  prometheus.Gauge  // how many checks and probes of rules this agent skips
	wake     chan struct{}     // gets a value when the configuration or the node has changed
	inForce  atomic.Bool       // the agent runs the checks and probes of a configuration
	unready  atomic.Pointer[string]
	// configured is closed by isConfigured when the rules of the node are in force, or cannot be known for now, and at
	// the latest RequestLimit after the start.
	configured   chan struct{}
	isConfigured func()

	// serving continues while the agent drains.
	serving *errgroup.Group
}

// run runs the agent until ctx ends, and then for the drain time.
func run(ctx context.Context, o *options, log *slog.Logger) error {
	clientLog.Do(func() { klog.SetSlogLogger(log) })
	a := &agent{options: o, log: log, registry: prometheus.NewRegistry(), wake: make(chan struct{}, 1)}
	a.registry.MustRegister(version.BuildInfo(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.unready.Store(new("the agent has just started"))
	a.configured = make(chan struct{})
	a.isConfigured = sync.OnceFunc(func() { close(a.configured) })
	if o.config == "" {
		a.isConfigured()
	}
	defer time.AfterFunc(nodewatch.RequestLimit, a.isConfigured).Stop()
	a.watchNode()
	a.makeHealth()
	a.makeProbes()
	a.makeLoader()

	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var servingCtx context.Context
	a.serving, servingCtx = errgroup.WithContext(serving)
	if err := a.start(servingCtx); err != nil {
		stop()
		_ = a.serving.Wait()
		return err
	}
	log.Info("Starting", "version", version.Version, "commit", version.Commit(), "node", o.nodeName)
	select {
	case <-servingCtx.Done(): // a server has failed
	case <-ctx.Done():
		a.drain(servingCtx)
	}
	stop()
	return a.serving.Wait()
}

// watchNode creates the watcher of the node, unless the node's name is unknown.
func (a *agent) watchNode() {
	if a.nodeName == "" {
		a.log.Warn("NODE_NAME is not set: checks that need the node's name answer with status 500")
		return
	}
	a.state = readState(a.stateFile, a.nodeName, a.log)
	if a.options.config == "" && a.state.saved != nil {
		a.state.saved.Config = nil // the agent ran with rules before, and does not any more
	}
	a.watcher = nodewatch.New(nodewatch.Options{
		Last:      a.state.node(),
		Name:      a.nodeName,
		Connect:   a.connect,
		TrustLast: a.health.apiUnavailable == unavailableLastKnown,
		Quiet:     !a.serveHealth,
		Log:       a.log,
	})
	a.watcher.OnChange(a.enqueue) // the node's labels and records decide which rules match
	a.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "node_readiness_agent_api_available",
		Help: "1 while the API server answers the agent about its node, otherwise 0.",
	}, func() float64 { return number(a.watcher.Known() && a.watcher.Unavailable() == nil) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "node_readiness_agent_node_missing",
			Help: "1 if the API server says that the agent's node does not exist, otherwise 0.",
		}, func() float64 { return number(a.watcher.Known() && a.watcher.Object() == nil) }))
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// connect reads how to reach the API server, again at each call.
func (a *agent) connect() (*nodewatch.Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	if a.impersonate { // like the incumbent's reporter: only the user name
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + a.nodeName}
	}
	return nodewatch.NewClient(config)
}

func (a *agent) makeHealth() {
	a.env = checks.Environment{AllowRemote: a.allowRemote, WriteRoot: a.writeRoot}
	if a.hostRoot == noHostRoot {
		a.env.NoHostRoot = true
	} else {
		a.env.HostRoot, a.env.Mounts = a.hostRoot, checks.RememberMounts(a.hostRoot)
	}
	if a.watcher != nil { // a nil *Watcher in the interface would not be nil
		a.env.Node = a.watcher
	}
	a.handler = &health.Handler{
		Suite:       a.suite.Load,
		DrainStatus: a.health.drainStatus,
		Configured:  a.configured,
		Starting:    func() bool { return a.watcher != nil && !a.watcher.Answered() },
		Maintenance: func() string {
			if a.watcher == nil {
				return ""
			}
			return checks.Maintenance(a.watcher.Object(), time.Now())
		},
		Metrics: health.NewMetrics(a.registry),
	}
	a.use(a.unconfigured())
}

// use makes these the checks of requests.
func (a *agent) use(suite *checks.Suite) {
	a.suite.Store(suite)
	a.handler.Metrics.Forget()
}

// unconfigured returns the checks of an agent without rules: it has no configuration file, or could not read it yet.
func (a *agent) unconfigured() *checks.Suite {
	var others []checks.Check
	if a.options.config != "" {
		others = checks.Unconfigured(a.env.Node)
	}
	return checks.NewSuite(a.suite.Load(), nil, append(others, checks.Builtin(a.env, nil)...)...)
}

// makeProbes creates the publisher of conditions.
func (a *agent) makeProbes() {
	if a.watcher == nil || a.reporter == nil && a.options.config == "" {
		return
	}
	newMetrics := probes.NewMetrics
	if a.reporter != nil {
		newMetrics = probes.NewReporterMetrics
		a.own = []probes.Probe{a.reporter.Probe()}
	}
	a.probes = probes.New(probes.Options{
		Node: a.nodeName, Source: a.watcher, Log: a.log, Metrics: newMetrics(a.registry),
		Update: a.reporter != nil,
	})
}

// start starts the servers and loops in a.serving, which end with ctx.
func (a *agent) start(ctx context.Context) error {
	servers := []struct {
		name, flag, address string
		on                  bool
		allow               []net.IPNet
		serve               func(context.Context, *health.Listener) error
	}{
		{"health", "--listen-port", a.health.listenAddress(a.health.port), a.serveHealth, a.health.allowFrom,
			a.serveHTTP(a.handler)},
		{"agent-check", "--agent-check-port", a.health.listenAddress(a.health.agentCheckPort), a.health.agentCheckPort != 0,
			a.health.allowFrom, a.handler.ServeAgentCheck},
		{"probes", "--health-probe-bind-address", a.probeAddress, a.probeAddress != "0", nil, a.serveHTTP(a.kubeletProbes())},
		{"metrics", "--metrics-bind-address", a.metricsAddress, a.metricsAddress != "0", a.metricsAllowFrom,
			a.serveHTTP(a.operations())},
	}
	for _, s := range servers {
		if !s.on {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
		if err != nil && s.name == "metrics" && a.reporter != nil { // another reporter on the node may use the port
			a.log.Error("Cannot serve metrics", "error", err.Error())
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: serving %s: %w", s.flag, s.name, err)
		}
		a.log.Info("Listening", "server", s.name, "address", l.Addr().String())
		a.serving.Go(func() error {
			if err := s.serve(ctx, health.NewListener(l, s.allow, a.handler.Metrics)); err != nil {
				return fmt.Errorf("serving %s: %w", s.name, err)
			}
			return nil
		})
	}
	if a.probes != nil {
		a.serving.Go(func() error { a.probes.Run(ctx); return nil })
		a.probes.Set(ctx, a.own, false)
	}
	if a.options.config != "" || a.watcher != nil && a.stateFile != "" {
		a.serving.Go(func() error { a.follow(ctx); return nil })
	}
	if a.watcher != nil {
		a.serving.Go(func() error { a.watcher.Run(ctx); return nil })
	}
	a.serving.Go(func() error { a.prove(ctx); return nil })
	return nil
}

func (a *agent) serveHTTP(h http.Handler) func(context.Context, *health.Listener) error {
	return func(ctx context.Context, l *health.Listener) error {
		return health.Serve(ctx, l, h, a.log)
	}
}

// drain lets /health answer with the drain status for the drain time, so that every load balancer notices before the
// agent stops.
func (a *agent) drain(ctx context.Context) {
	a.handler.Drain()
	if a.health.drainTime == 0 || !a.serveHealth {
		return
	}
	a.log.Info("Shutting down. A second signal ends the agent at once.", "drainStatus", a.health.drainStatus,
		"drainTime", a.health.drainTime.String())
	select {
	case <-time.After(a.health.drainTime):
	case <-ctx.Done():
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/internal/operator"
)

// parsed returns the options of a command line that is in order, and the settings that it makes.
func parsed(t *testing.T, args ...string) (*options, *operator.Options) {
	t.Helper()
	o := &options{}
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	o.bind(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	s, err := o.settings("")
	if err != nil {
		t.Fatal(err)
	}
	return o, s
}

// TestTheCommandLineOfTheIncumbent has each of its flags, with a value that its users give, and what it does.
func TestTheCommandLineOfTheIncumbent(t *testing.T) {
	client := func(o *options) *rest.Config { return restConfig(&rest.Config{}, &o.client) }
	for name, c := range map[string]struct {
		args []string
		does func(*options, *operator.Options) bool
	}{
		"metrics off": {args: []string{"--metrics-bind-address=0"},
			does: func(o *options, _ *operator.Options) bool { return off(o.serving.metricsAddress) }},
		"metrics over HTTPS": {args: []string{"--metrics-bind-address=:8443", "--metrics-secure=true"},
			does: func(o *options, _ *operator.Options) bool {
				return o.serving.metricsAddress == ":8443" && o.serving.metricsSecure
			}},
		"metrics over HTTP, with a directory that only HTTPS uses": {
			args: []string{"--metrics-bind-address=:8080", "--metrics-secure=false", "--metrics-cert-dir=/certs"},
			does: func(o *options, _ *operator.Options) bool {
				return o.serving.metricsAddress == ":8080" && !o.serving.metricsSecure
			}},
		"a certificate for metrics": {args: []string{"--metrics-cert-dir=/certs"},
			does: func(o *options, _ *operator.Options) bool { return o.serving.metricsCertDir == "/certs" }},
		"probes": {args: []string{"--health-probe-bind-address=:9081"},
			does: func(o *options, _ *operator.Options) bool { return o.serving.probeAddress == ":9081" }},
		"pprof": {args: []string{"--pprof-bind-address=127.0.0.1:6060"},
			does: func(o *options, _ *operator.Options) bool {
				return managerOptions(o).PprofBindAddress == "127.0.0.1:6060"
			}},
		"an election": {args: []string{"--leader-elect", "--leader-election-namespace=nrr-system"},
			does: func(o *options, _ *operator.Options) bool {
				m := managerOptions(o)
				return m.LeaderElection && m.LeaderElectionNamespace == "nrr-system"
			}},
		"no election": {args: []string{"--leader-elect=false"},
			does: func(o *options, _ *operator.Options) bool { return !managerOptions(o).LeaderElection }},
		"webhooks": {args: []string{"--enable-webhook"},
			does: func(_ *options, s *operator.Options) bool { return s.Webhooks != nil }},
		"no webhooks": {args: []string{"--enable-webhook=false"},
			does: func(_ *options, s *operator.Options) bool { return s.Webhooks == nil }},
		"metrics of node states": {args: []string{"--enable-node-state-metrics"},
			does: func(_ *options, s *operator.Options) bool { return s.NodeStateMetrics }},
		"the startup objective by default": {
			does: func(_ *options, s *operator.Options) bool { return s.StartupObjective == 5*time.Minute }},
		"a startup objective": {args: []string{"--startup-objective=90s"},
			does: func(_ *options, s *operator.Options) bool { return s.StartupObjective == 90*time.Second }},
		"answers are not compressed": {
			does: func(o *options, _ *operator.Options) bool { return client(o).DisableCompression }},
		"no limit of requests": {args: []string{"--kube-api-qps=-1", "--kube-api-burst=-1"},
			does: func(o *options, _ *operator.Options) bool { return client(o).QPS < 0 }},
		"no limit of requests, regardless of the burst": {args: []string{"--kube-api-qps=-1", "--kube-api-burst=100"},
			does: func(o *options, _ *operator.Options) bool { return client(o).QPS < 0 }},
		"a limit of requests": {args: []string{"--kube-api-qps=50", "--kube-api-burst=70"},
			does: func(o *options, _ *operator.Options) bool { return client(o).QPS == 50 && client(o).Burst == 70 }},
		"a limit of requests without one of bursts": {args: []string{"--kube-api-qps=50", "--kube-api-burst=-1"},
			does: func(o *options, _ *operator.Options) bool { return client(o).QPS == 50 && client(o).Burst == 100 }},
		"workers": {args: []string{"--node-concurrent-reconciles=10", "--rule-concurrent-reconciles=5"},
			does: func(o *options, _ *operator.Options) bool { return o.workers.nodes == 10 && o.workers.rules == 5 }},
		"a log for people": {args: []string{"--zap-devel", "--zap-encoder=console", "--zap-log-level=debug",
			"--zap-stacktrace-level=panic", "--zap-time-encoding=rfc3339"},
			does: func(o *options, _ *operator.Options) bool {
				return o.logging.Development && o.logging.NewEncoder != nil && o.logging.Level.Enabled(zapcore.DebugLevel) &&
					!o.logging.StacktraceLevel.Enabled(zapcore.ErrorLevel) && o.logging.TimeEncoder != nil
			}},
	} {
		t.Run(name, func(t *testing.T) {
			if o, s := parsed(t, c.args...); !c.does(o, s) {
				t.Errorf("%s does something else: %+v", strings.Join(c.args, " "), o)
			}
		})
	}
}

func TestTheAgentsConfigurationIsInTheOperatorsNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		args      []string
		own, want string
	}{
		"in a cluster":                       {own: "own", want: "own/nodegate-agent-config"},
		"with a lease in another namespace":  {[]string{"--leader-election-namespace=x"}, "own", "own/nodegate-agent-config"},
		"outside of a cluster, with a lease": {[]string{"--leader-election-namespace=x"}, "", "x/nodegate-agent-config"},
		"outside of a cluster, without one":  {},
		"elsewhere":                          {[]string{"--agent-config=y/z"}, "own", "y/z"},
		"not written":                        {[]string{"--agent-config="}, "own", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := parsed(t, c.args...)
			s, err := o.settings(c.own)
			got := ""
			if err == nil && s.AgentConfig != nil {
				got = s.AgentConfig.String()
			}
			if err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// The policies believe the account of one namespace. Kustomize's "namespace" changes the account, and not the policies.
func TestTheRecordGuardExpectsTheOperatorsNamespace(t *testing.T) {
	guard := "--record-guard-namespace=nodegate-system"
	for name, c := range map[string]struct {
		args []string
		own  string
		says string
	}{
		"the same":             {args: []string{guard}, own: "nodegate-system"},
		"another one":          {args: []string{guard}, own: "platform", says: "replace each nodegate-system"},
		"outside of a cluster": {args: []string{guard}},
		"not said":             {own: "platform"},
		"no record guard":      {args: []string{guard, "--record-guard=false"}, own: "platform"},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := parsed(t, c.args...)
			_, err := o.settings(c.own)
			if err == nil && c.says != "" || err != nil && (c.says == "" || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("the error is %v, want %q", err, c.says)
			}
		})
	}
}

func TestWrongFlags(t *testing.T) {
	const rules, transient = "--rule-key-prefixes", "--transient-taint-prefixes"
	for name, c := range map[string]struct{ arg, says string }{
		"prefixes": {arg: rules + "=readiness.k8s.io/,example.com/"},
		"none":     {arg: rules + "="},
		"a comma at the end": {
			rules + "=readiness.k8s.io/,", rules + `: a prefix must not be empty or have spaces around it, but one is ""`},
		"a blank": {rules + "=readiness.k8s.io/, example.com/", `but one is " example.com/"`},
		"of temporary taints, a comma at the end": {
			transient + "=karpenter.sh/,", transient + `: a prefix must not be empty`},
		"of temporary taints, none": {arg: transient + "="},
		"a source of certificates, without webhooks": {
			"--webhook-certs=nonsense", `--webhook-certs: must be self-managed or files, not "nonsense"`},
		"certificates of files, without webhooks": {arg: "--webhook-certs=files"},
	} {
		t.Run(name, func(t *testing.T) {
			o, fs := &options{}, pflag.NewFlagSet("manager", pflag.ContinueOnError)
			o.bind(fs)
			if err := fs.Parse([]string{c.arg}); err != nil {
				t.Fatal(err)
			}
			_, err := o.settings("")
			if err == nil && c.says != "" || err != nil && (c.says == "" || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("the error is %v, want %q", err, c.says)
			}
		})
	}
}

func TestElectionOutsideOfACluster(t *testing.T) {
	for name, c := range map[string]struct {
		args             []string
		inCluster, elect bool
		says             string
	}{
		"without a flag it runs alone":    {},
		"asked for, it says what to pass": {args: []string{"--leader-elect"}, says: "set --leader-election-namespace"},
		"with a namespace it elects":      {args: []string{"--leader-election-namespace=x"}, elect: true},
		"in a cluster it elects":          {inCluster: true, elect: true},
		"turned off":                      {args: []string{"--leader-elect=false"}},
		"turned off in a cluster":         {args: []string{"--leader-elect=false"}, inCluster: true},
		"asked for in a cluster":          {args: []string{"--leader-elect"}, inCluster: true, elect: true},
		"asked for with the lease's namespace": {
			args: []string{"--leader-elect", "--leader-election-namespace=x"}, elect: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, fs := &options{}, pflag.NewFlagSet("manager", pflag.ContinueOnError)
			o.bind(fs)
			if err := fs.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			err := o.election.settle(fs.Changed("leader-elect"), c.inCluster)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %q", err, c.says)
				}
				return
			}
			if err != nil || managerOptions(o).LeaderElection != c.elect {
				t.Errorf("elects: %t, %v; want %t", managerOptions(o).LeaderElection, err, c.elect)
			}
		})
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"flag"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/leader"
	"github.com/nodegate/nodegate/internal/version"
)

// options are what the command line says, group by group.
type options struct {
	serving  servingOptions
	election electionOptions
	client   clientOptions
	workers  workerOptions
	webhooks webhookOptions
	agents   agentOptions
	logging  zap.Options

	outage *outage // made with the logger
}

type servingOptions struct {
	metricsAddress string
	metricsSecure  bool
	metricsCertDir string
	nodeStates     bool
	objective      time.Duration
	probeAddress   string
	pprofAddress   string
}

func (o *servingOptions) bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443",
		"Address of /metrics. 0 turns it off.")
	fs.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"Serve metrics over HTTPS, and only to clients that may get the URL /metrics. The API server authenticates and "+
			"authorizes them.")
	fs.StringVar(&o.metricsCertDir, "metrics-cert-dir", "",
		"Directory with tls.crt and tls.key for --metrics-secure. The operator waits for them, and reloads them when they "+
			"change. Default: a self-signed certificate.")
	fs.BoolVar(&o.nodeStates, "enable-node-state-metrics", false, "Also serve metrics of the Node Readiness "+
		"Controller: nodes by state, failed conditions, and when each rule was last reconciled.")
	fs.DurationVar(&o.objective, "startup-objective", 5*time.Minute, "Objective for the time from a node's creation to "+
		"its release. node_readiness_startup_objective_total counts the nodes that meet it. 0 turns this metric off.")
	fs.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081",
		"Address of /healthz and /readyz. /readyz succeeds once the caches are synced. 0 turns them off.")
	fs.StringVar(&o.pprofAddress, "pprof-bind-address", "", "Address of pprof, such as 127.0.0.1:6060. Default: pprof "+
		"is off.")
}

type electionOptions struct {
	enabled   bool
	namespace string
}

// settle turns the election off outside of a cluster, where a lease has no namespace unless the flags name one. A user
// who asks for an election gets an error instead: two replicas that both write would double every limit.
func (o *electionOptions) settle(asked, inCluster bool) error {
	if !o.enabled || o.namespace != "" || inCluster {
		return nil
	}
	if asked {
		return errors.New("--leader-elect: the lease has no namespace outside of a cluster: set " +
			"--leader-election-namespace, for example to nodegate-system, or --leader-elect=false if this is the only replica")
	}
	o.enabled = false
	return nil
}

func (o *electionOptions) bind(fs *pflag.FlagSet) {
	fs.BoolVar(&o.enabled, "leader-elect", true, "Elect a leader, so that only one replica writes. Turn it off only if "+
		"there is only one replica. Outside of a cluster it is off unless --leader-election-namespace is set.")
	fs.StringVar(&o.namespace, "leader-election-namespace", "",
		"Namespace of the lease. Default: the operator's namespace.")
}

// lease returns the lease of this process.
func (o *electionOptions) lease() *leader.Lease {
	return &leader.Lease{
		ObjectKey: types.NamespacedName{Namespace: cmp.Or(o.namespace, ownNamespace()), Name: leaseName},
		Labels:    map[string]string{"nodegate.io/process": string(uuid.NewUUID())},
	}
}

type clientOptions struct {
	qps   float32
	burst int
}

func (o *clientOptions) bind(fs *pflag.FlagSet) {
	fs.Float32Var(&o.qps, "kube-api-qps", -1,
		"Maximum number of requests per second to the API server. 0 or less: the operator sets no limit, and the API "+
			"server's priority and fairness applies.")
	fs.IntVar(&o.burst, "kube-api-burst", -1, "Maximum burst of requests above --kube-api-qps. 0 or less: twice "+
		"--kube-api-qps.")
}

// workerOptions are about the controllers.
type workerOptions struct {
	nodes, rules           int
	transientTaintPrefixes []string
	ruleKeyPrefixes        []string
}

func (o *workerOptions) bind(fs *pflag.FlagSet) {
	fs.IntVar(&o.nodes, "node-concurrent-reconciles", 16, "Number of nodes that are reconciled at the same time.")
	fs.IntVar(&o.rules, "rule-concurrent-reconciles", 4, "Number of rules that are reconciled at the same time.")
	fs.StringSliceVar(&o.transientTaintPrefixes, "transient-taint-prefixes", evidence.DefaultTransientTaintPrefixes,
		"Prefixes of the keys of temporary taints. The operator ignores temporary taints when it decides which DaemonSets "+
			"belong on a node. Taints of rules, and taints under node.kubernetes.io/ and node.cloudprovider.kubernetes.io/, "+
			"are always temporary.")
	fs.StringSliceVar(&o.ruleKeyPrefixes, "rule-key-prefixes", nil,
		"Prefixes of the keys that rules may have for their taints and annotations. Rules with other keys are frozen. If "+
			"empty, all keys are allowed.")
}

func (o *options) bind(fs *pflag.FlagSet) {
	o.serving.bind(fs)
	o.election.bind(fs)
	o.client.bind(fs)
	o.workers.bind(fs)
	o.webhooks.bind(fs)
	o.agents.bind(fs)

	goFlags := flag.NewFlagSet("", flag.ContinueOnError)
	o.logging.BindFlags(goFlags)
	fs.AddGoFlagSet(goFlags)
}

// apiGroup is the flag that chooses the API group that the process serves.
type apiGroup struct{}

// String returns the group that is served.
func (apiGroup) String() string { return v1alpha1.Served().Name }

// Set chooses the group.
func (apiGroup) Set(name string) error { return v1alpha1.Serve(name) }

// Type returns the word for the value in the help.
func (apiGroup) Type() string { return "group" }

func newCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "manager",
		Short:         "The Nodegate operator: taints nodes that are not ready, and removes the taints when they are",
		Args:          cobra.NoArgs,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) { // for each command: each one has clients that log
			setLogger(o.newLogger())
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			own := ownNamespace()
			settings, err := o.settings(own)
			err = errors.Join(err, o.election.settle(cmd.Flags().Changed("leader-elect"), own != ""))
			if err != nil {
				return err
			}
			return run(cmd.Context(), o, settings)
		},
	}
	o.bind(cmd.Flags())
	goFlags := flag.NewFlagSet("", flag.ContinueOnError)
	config.RegisterFlags(goFlags)
	cmd.PersistentFlags().AddGoFlagSet(goFlags)
	cmd.PersistentFlags().Var(apiGroup{}, "api-group", "API group of the rules: "+
		strings.Join(v1alpha1.GroupNames(), " or ")+". Choose the second if the first belongs to another controller.")
	cmd.AddCommand(newApplyCRDCommand(), newDeleteRulesCommand())
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd
}

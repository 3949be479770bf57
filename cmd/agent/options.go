// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodegate/nodegate/internal/agent/probes"
	"github.com/nodegate/nodegate/internal/version"
)

// Values of --api-unavailable.
const (
	unavailablePass      = "pass"
	unavailableLastKnown = "last-known"
)

// noHostRoot is the value of --host-root where the agent does not see the node's files.
const noHostRoot = "none"

// options are what the command line says and, where it does not, the environment.
type options struct {
	nodeName   string
	kubeconfig string
	hostRoot   string
	writeRoot  string
	logLevel   string

	config      string
	stateFile   string
	allowRemote bool

	health healthOptions

	metricsAddress, probeAddress string

	reporter    *probes.Reporter // from the environment alone; nil for none
	impersonate bool
	serveHealth bool

	hooks
}

// hooks are what tests need of a running agent. The zero value is none.
type hooks struct {
	// listening is told where each server listens.
	listening func(server string, address net.Addr)
	// hurry, when closed, ends the draining.
	hurry <-chan struct{}
}

type healthOptions struct {
	address        string
	port           int
	agentCheckPort int
	allowFrom      []net.IPNet
	apiUnavailable string
	drainTime      time.Duration
	drainStatus    int
}

func (o *healthOptions) bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.address, "listen-address", "", "IP address that /health and the agent-check are served on. All "+
		"addresses by default.")
	fs.IntVar(&o.port, "listen-port", 25001, "Port that /health is served on. Environment: LISTEN_PORT.")
	fs.IntVar(&o.agentCheckPort, "agent-check-port", 0, "Port of HAProxy's agent-check protocol. 0, the default, turns "+
		"it off.")
	fs.IPNetSliceVar(&o.allowFrom, "allow-from", nil, "Networks (CIDR) whose addresses may ask /health and the "+
		"agent-check: your balancers'. Connections from others are closed at once. All addresses by default.")
	fs.StringVar(&o.apiUnavailable, "api-unavailable", unavailablePass,
		"What checks of the node's object answer while the API server is unavailable: pass, or last-known to judge by "+
			"what was last known.")
	fs.IntVar(&o.drainStatus, "drain-status", 503, "HTTP status of /health while nothing is wrong but that the node is "+
		"in maintenance, "+
		"or its agent ends or has just started. 404 is what HAProxy's \"http-check disable-on-404\" waits for.")
	fs.DurationVar(&o.drainTime, "drain-time", 30*time.Second,
		"For how long /health goes on answering, with 503, after SIGTERM: at least the balancer's interval times its "+
			"number of failures. A second signal ends the agent at once.")
}

func (o *options) bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.nodeName, "node-name", "", "Name of the node that the agent runs on. Environment: NODE_NAME.")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "",
		"Kubeconfig file. By default the one that KUBECONFIG names, else the service account of the pod. What is missing "+
			"is looked for again.")
	fs.StringVar(&o.hostRoot, "host-root", "", "Where the node's root directory is mounted, an absolute path. Empty, "+
		"the default, means /. "+
		"none: nowhere; then what looks at the node's files (filesystem_ro, disk_pressure, container_runtime, file) says "+
		"that the agent is misconfigured for it.")
	fs.StringVar(&o.writeRoot, "write-root", "", "Where the directories are mounted that filesystem_ro may write to if "+
		"a rule says "+
		"writeTest: below it, by their paths on the node. By default the value of --host-root.")
	fs.StringVar(&o.config, "config", "",
		"File with the agents' configuration, compiled from the rules. It is read again when it changes. Without it the "+
			"agent runs the checks that it is asked for, and no probes.")
	fs.StringVar(&o.stateFile, "state-file", "", "File in which the agent keeps the last good configuration and its "+
		"node's labels, "+
		"so that a restart while the API server is away changes nothing. Without it nothing is kept.")
	fs.BoolVar(&o.allowRemote, "allow-remote", false,
		"Let the checks and probes of rules connect to other addresses than this node's own.")
	fs.StringVar(&o.logLevel, "log-level", "info", "error, warn, info or debug. Environment: LOG_LEVEL, or else RUST_LOG.")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":9445",
		"Address that /metrics is served on. 0 turns it off. Environment: METRICS_BIND_ADDRESS.")
	fs.StringVar(&o.probeAddress, "health-probe-bind-address", "0", "Address that /livez and /readyz are served on, for "+
		"kubelet: one on 127.0.0.1 needs no protection. 0, the default, turns them off.")
	o.health.bind(fs)
}

// environment are the variables that flags take their values from where they are not given, the first that is set.
var environment = map[string][]string{
	"node-name":            {"NODE_NAME"},
	"listen-port":          {"LISTEN_PORT"},
	"log-level":            {"LOG_LEVEL", "RUST_LOG"},
	"metrics-bind-address": {"METRICS_BIND_ADDRESS"},
}

func fromEnvironment(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	for flag, names := range environment {
		if fs.Changed(flag) {
			continue
		}
		for _, name := range names {
			value, ok := lookup(name)
			if !ok || value == "" {
				continue
			}
			if err := fs.Set(flag, value); err != nil {
				return fmt.Errorf("the environment variable %s: %w", name, err)
			}
			break
		}
	}
	return nil
}

func (o *options) validate() error {
	var errs []error
	port := func(flag string, n int) {
		if n < 0 || n > 65535 {
			errs = append(errs, fmt.Errorf("--%s: must be a port from 0 to 65535, not %d", flag, n))
		}
	}
	port("listen-port", o.health.port)
	port("agent-check-port", o.health.agentCheckPort)
	if u := o.health.apiUnavailable; u != unavailablePass && u != unavailableLastKnown {
		errs = append(errs, fmt.Errorf("--api-unavailable: must be pass or last-known, not %q", u))
	}
	if o.hostRoot != "" && o.hostRoot != noHostRoot && !filepath.IsAbs(o.hostRoot) {
		errs = append(errs, fmt.Errorf("--host-root: must be an absolute path or none, not %q", o.hostRoot))
	}
	if s := o.health.drainStatus; s < 400 || s > 599 {
		errs = append(errs, fmt.Errorf("--drain-status: must be a status from 400 to 599, not %d", s))
	}
	if o.writeRoot != "" && !filepath.IsAbs(o.writeRoot) {
		errs = append(errs, fmt.Errorf("--write-root: must be an absolute path, not %q", o.writeRoot))
	}
	if o.health.drainTime < 0 {
		errs = append(errs, errors.New("--drain-time: must not be negative"))
	}
	if o.config != "" && o.nodeName == "" {
		errs = append(errs, errors.New("--config: needs --node-name, or NODE_NAME: which rules match depends on the "+
			"node's labels"))
	}
	if o.health.address != "" && net.ParseIP(o.health.address) == nil {
		errs = append(errs, fmt.Errorf("--listen-address: must be an IP address, not %q", o.health.address))
	}
	return errors.Join(errs...)
}

// readReporter makes the agent what the incumbent's reporter is where the environment says so. It then answers
// balancers only if it is told a port: several reporters may run on one node.
func (o *options) readReporter(fs *pflag.FlagSet, lookup func(string) (string, bool), log *slog.Logger) error {
	var err error
	if o.reporter, err = probes.ReporterFromEnv(lookup, log); err != nil {
		return err
	}
	if o.reporter != nil && o.nodeName == "" {
		return errors.New("the environment variable NODE_NAME: must be set along with CHECK_ENDPOINT")
	}
	impersonate, _ := lookup("IMPERSONATE_NODE")
	o.impersonate = impersonate == "true" && o.nodeName != ""
	o.serveHealth = o.reporter == nil || fs.Changed("listen-port")
	return nil
}

func (o *healthOptions) listenAddress(port int) string {
	return net.JoinHostPort(o.address, strconv.Itoa(port))
}

// parseLevel reads a level. RUST_LOG may hold several directives, such as "warn,harmony=debug": the one for everything
// counts, or else the most talkative. What has no such level here is as near as can be.
func parseLevel(s string) (slog.Level, bool) {
	levels := map[string]slog.Level{
		"off": slog.LevelError + 4, "error": slog.LevelError, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
		"info": slog.LevelInfo, "debug": slog.LevelDebug, "trace": slog.LevelDebug,
	}
	found, level := false, slog.LevelInfo
	for directive := range strings.SplitSeq(strings.ToLower(s), ",") {
		_, word, of := strings.Cut(strings.TrimSpace(directive), "=")
		if !of {
			word = strings.TrimSpace(directive)
		}
		l, ok := levels[word]
		switch {
		case ok && !of:
			return l, true
		case ok && (!found || l < level):
			found, level = true, l
		}
	}
	return level, found
}

// newCommand returns the command. lookup finds environment variables.
func newCommand(lookup func(string) (string, bool), h hooks) *cobra.Command {
	o := &options{hooks: h}
	cmd := &cobra.Command{
		Use:           "agent",
		Short:         "The Nodegate node agent: answers external load balancers about its node",
		Args:          cobra.NoArgs,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd.Flags(), lookup); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			log := newLogger(cmd.ErrOrStderr(), o.logLevel)
			if err := o.readReporter(cmd.Flags(), lookup, log); err != nil {
				return err
			}
			return run(cmd.Context(), o, log)
		},
	}
	o.bind(cmd.Flags())
	return cmd
}

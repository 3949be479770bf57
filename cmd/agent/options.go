// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
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

// noHostRoot is the value of --host-root for an agent that cannot see the node's files.
const noHostRoot = "none"

// options are the flags, or the environment variables in their place.
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
	metricsAllowFrom             networks

	reporter    *probes.Reporter // from environment variables only; nil: the agent is no reporter
	impersonate bool
	serveHealth bool
}

// networks is the value of a flag: networks (CIDR), separated by commas.
type networks []net.IPNet

func (n *networks) String() string {
	all := make([]string, len(*n))
	for i := range *n {
		all[i] = (*n)[i].String()
	}
	return strings.Join(all, ",")
}

// Set adds networks.
func (n *networks) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		_, network, err := net.ParseCIDR(part)
		if address, e := netip.ParseAddr(part); e == nil {
			return fmt.Errorf("%s is an address: write it as the network %s/%d", part, part, address.BitLen())
		}
		if err != nil {
			return fmt.Errorf("%q is not a network such as 192.0.2.0/24", part)
		}
		*n = append(*n, *network)
	}
	return nil
}

// Type is the name of the value in the help.
func (n *networks) Type() string { return "networks" }

type healthOptions struct {
	address        string
	port           int
	agentCheckPort int
	allowFrom      networks
	apiUnavailable string
	drainTime      time.Duration
	drainStatus    int
}

func (o *healthOptions) bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.address, "listen-address", "", "IP address that serves /health and the agent-check. Default: all "+
		"addresses.")
	fs.IntVar(&o.port, "listen-port", 25001, "Port of /health. 0 takes a free port, which the log names. "+
		"Environment: LISTEN_PORT.")
	fs.IntVar(&o.agentCheckPort, "agent-check-port", 0, "Port of HAProxy's agent-check protocol. 0 turns it off.")
	fs.Var(&o.allowFrom, "allow-from", "Networks (CIDR) of the clients of /health and the agent-check, "+
		"which are your load balancers. The agent closes other connections at once. Default: all addresses.")
	fs.StringVar(&o.apiUnavailable, "api-unavailable", unavailablePass,
		"Result of the checks of the Node object while the API server is unavailable: pass, or last-known to use the last "+
			"known state of the node.")
	fs.IntVar(&o.drainStatus, "drain-status", 503, "HTTP status of /health, 400 to 599, while all checks pass but the "+
		"node is in maintenance or the agent shuts down. With another value, also the status until a new agent can judge. "+
		"Use 404 for HAProxy's \"http-check disable-on-404\".")
	fs.DurationVar(&o.drainTime, "drain-time", 30*time.Second,
		"How long /health answers with the drain status after SIGTERM: at least the load balancer's interval times its "+
			"number of failures. A second signal ends the agent at once.")
}

func (o *options) bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.nodeName, "node-name", "", "Name of the node that the agent runs on. Environment: NODE_NAME.")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "",
		"Kubeconfig file. Default: the file in KUBECONFIG, or else the service account of the pod. The agent looks again "+
			"for a missing file.")
	fs.StringVar(&o.hostRoot, "host-root", "", "Absolute path at which the node's root directory is mounted. Default: /. "+
		"With none, checks of the node's files (filesystem_ro, disk_pressure, container_runtime, file) report that the "+
		"agent is misconfigured.")
	fs.StringVar(&o.writeRoot, "write-root", "", "Directory below which filesystem_ro finds the directories to write to "+
		"if a rule sets writeTest, by their paths on the node. Default: the value of --host-root.")
	fs.StringVar(&o.config, "config", "",
		"File with the configuration that the operator compiles from the rules. The agent reads it again when it changes. "+
			"Without it, the agent runs only the checks that requests name, and no probes.")
	fs.StringVar(&o.stateFile, "state-file", "", "File in which the agent saves the last good configuration and the "+
		"state of its node, so that a restart while the API server is unavailable changes nothing. Default: none.")
	fs.BoolVar(&o.allowRemote, "allow-remote", false,
		"Let checks and probes of rules connect to addresses of other machines.")
	fs.StringVar(&o.logLevel, "log-level", "info", "error, warn, info or debug. Environment: LOG_LEVEL, or else RUST_LOG.")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":9445",
		"Address of /metrics. 0 turns it off. Environment: METRICS_BIND_ADDRESS.")
	fs.Var(&o.metricsAllowFrom, "metrics-allow-from", "Networks (CIDR) of the clients of /metrics, such as that of "+
		"Prometheus. The agent closes other connections at once. Default: all addresses.")
	fs.StringVar(&o.probeAddress, "health-probe-bind-address", "0", "Address of /livez and /readyz, for the kubelet. On "+
		"127.0.0.1, other machines cannot reach it. 0 turns them off.")
	o.health.bind(fs)
}

// environment lists the variables that set a flag that is not given. The first variable that is set counts.
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
	return errors.Join(append(errs, o.validateAddresses()...)...)
}

// validateAddresses makes sure that the servers can have their ports, each its own.
func (o *options) validateAddresses() (errs []error) {
	type server struct{ flag, host, port string }
	var servers []server
	add := func(flag, address string) {
		if address == "0" {
			return
		}
		host, port, err := net.SplitHostPort(address)
		if n, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil {
			errs = append(errs, fmt.Errorf("--%s: must be an address such as :9445 or 127.0.0.1:9445, or 0, not %q", flag,
				address))
			return
		} else if n == 0 {
			return
		}
		ip := net.ParseIP(host)
		everywhere := host == "" || ip.IsUnspecified()
		for _, s := range servers {
			if s.port == port && (s.host == host || everywhere || s.host == "") {
				errs = append(errs, fmt.Errorf("--%s: port %s is also that of --%s: choose another port", flag, port, s.flag))
			}
		}
		if everywhere {
			host = ""
		}
		servers = append(servers, server{flag, host, port})
	}
	if o.serveHealth {
		add("listen-port", o.health.listenAddress(o.health.port))
	}
	if o.health.agentCheckPort != 0 {
		add("agent-check-port", o.health.listenAddress(o.health.agentCheckPort))
	}
	add("metrics-bind-address", o.metricsAddress)
	add("health-probe-bind-address", o.probeAddress)
	return errs
}

// readReporter makes the agent a reporter if the environment variables of the incumbent's reporter are set. It then
// answers load balancers only if a port is set, because several reporters may run on one node.
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

// parseLevel reads a level. RUST_LOG may have several directives, such as "warn,harmony=debug": the one without a
// target counts, or else the most verbose one. A level that slog lacks becomes the nearest one.
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
func newCommand(lookup func(string) (string, bool)) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:           "agent",
		Short:         "The Nodegate node agent: tells external load balancers whether its node is ready",
		Args:          cobra.NoArgs,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd.Flags(), lookup); err != nil {
				return err
			}
			log := newLogger(cmd.ErrOrStderr(), o.logLevel)
			if err := o.readReporter(cmd.Flags(), lookup, log); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			return run(cmd.Context(), o, log)
		},
	}
	o.bind(cmd.Flags())
	return cmd
}

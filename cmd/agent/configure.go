// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodegate/nodegate/internal/agent/checks"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/agent/probes"
)

// makeLoader creates the loader of the configuration file.
func (a *agent) makeLoader() {
	if a.options.config == "" {
		return
	}
	a.unknown = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "node_readiness_agent_config_unknown",
		Help: "Checks and probes of the node's rules, and fields of the configuration, that this agent does not know: it " +
			"skips them.",
	})
	a.registry.MustRegister(a.unknown)
	a.loader = &config.Loader{Path: a.options.config, Log: a.log, Changed: a.enqueue}
	a.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "node_readiness_agent_config_good", Help: "1 while the configuration file can be used, otherwise 0: the " +
			"last good one stays in force.",
	}, func() float64 { return number(a.loader.Problem() == "" && a.loader.Current() != nil) }))
}

// follow runs the checks and probes of the rules that match the node, until ctx ends. While the configuration or the
// node is unknown, the saved state counts. Without one, checks that depend on rules are marked as fail-open.
func (a *agent) follow(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	if a.loader != nil {
		a.loader.Load() // before the API server answers
		all.Go(func() { a.loader.Run(ctx) })
	}
	defer a.state.start()()
	end := func() {} // ends the background checks
	defer func() { end() }()
	before := ""
	a.enqueue()
	for {
		select {
		case <-ctx.Done():
			if node := a.watcher.Object(); node != nil && a.watcher.Known() {
				a.state.save(nil, node, true) // with the last heartbeats, whose age a rule may limit
			}
			return
		case <-a.wake:
		}
		var loaded *config.File
		if a.loader != nil {
			loaded = a.loader.Current()
		}
		answered := a.watcher.Answered() // before the node is read
		known, node := a.watcher.Known(), a.watcher.Object()
		file, last, fresh, ok := a.state.current(loaded, node, known)
		if known && node != nil {
			a.state.save(loaded, node, false)
		}
		if !ok {
			if before != "" { // the saved state was of another node
				before = ""
				end()
				a.use(a.unconfigured())
				a.probes.Set(ctx, a.own, false)
			}
			if answered {
				a.isConfigured()
			}
			continue
		}
		rules := file.Select(last)
		now := fingerprint(rules, file, fresh)
		if now == before {
			continue
		}
		before = now
		end()
		suiteCtx, cancel := context.WithCancel(ctx)
		end = cancel
		suite, problems := checks.ForRules(a.env, a.suite.Load(), rules, file.Rules)
		a.use(suite)
		a.isConfigured()
		all.Go(func() { suite.Run(suiteCtx) })
		wanted, more := probes.ForRules(a.env, a.own, rules)
		unknown := len(problems) + len(file.Unknown())
		for i := range wanted {
			if wanted[i].Skip {
				unknown++
			}
		}
		a.unknown.Set(float64(unknown))
		// Conditions of former probes are removed only when it is certain that no rule wants them.
		a.probes.Set(ctx, wanted, fresh)
		a.inForce.Store(true)
		for _, err := range append(problems, more...) {
			a.log.Warn("Ignoring a part of the configuration", "error", err.Error())
		}
		a.log.Info("The configuration is in force", "rules", len(rules), "checks", suite.Defaults(),
			"probes", len(wanted), "saved", !fresh)
	}
}

// enqueue makes follow look at the configuration and the node again.
func (a *agent) enqueue() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// fingerprint changes with all inputs of the checks and probes, and with the unknown fields.
func fingerprint(rules []config.Rule, file *config.File, fresh bool) string {
	names := make([]string, 0, len(file.Rules))
	for i := range file.Rules {
		if file.Rules[i].Health != nil {
			names = append(names, file.Rules[i].Name)
		}
	}
	raw, _ := json.Marshal([]any{rules, names, file.Unknown(), fresh}) // they were read from JSON: cannot fail
	return string(raw)
}

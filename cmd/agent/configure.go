// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/agent/probes"
)

// makeLoader makes what follows the configuration's file.
func (a *agent) makeLoader() {
	if a.options.config == "" {
		return
	}
	nudge := func() {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	a.loader = &config.Loader{Path: a.options.config, Log: a.log, Changed: func(*config.File) { nudge() }}
	a.watcher.OnChange(nudge) // the node's labels decide which rules match
	a.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "node_readiness_agent_config_good", Help: "1 while the configuration's file can be used as it stands, else 0: then the last good one is in force.",
	}, func() float64 {
		if a.loader.Problem() != "" || a.loader.Current() == nil {
			return 0
		}
		return 1
	}))
}

// ownProbes are the probes that the environment asks for, not a rule.
func (a *agent) ownProbes() []probes.Probe {
	if a.reporter == nil {
		return nil
	}
	return []probes.Probe{a.reporter.Probe()}
}

// follow has the checks and probes be what the rules say that match the node, until ctx ends. Until the configuration and the
// node's labels are known, it is as if there were no rules; once they were known, the last ones count.
func (a *agent) follow(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { a.loader.Run(ctx) })
	end := func() {} // of the checks in the background
	defer func() { end() }()
	before := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		file, node := a.loader.Current(), a.watcher.Object()
		if file == nil || node == nil {
			continue
		}
		rules := file.Select(node.Labels)
		now := fingerprint(rules, file)
		if now == before {
			continue
		}
		before = now
		end()
		suiteCtx, cancel := context.WithCancel(ctx)
		end = cancel
		a.configure(suiteCtx, ctx, rules, file, &all)
	}
}

// configure puts rules in force. The checks in the background end with suiteCtx, the probes with ctx.
func (a *agent) configure(suiteCtx, ctx context.Context, rules []config.Rule, file *config.File, all *sync.WaitGroup) {
	suite, problems := suiteFor(a.env, rules, file.Rules)
	a.suite.Store(suite)
	all.Go(func() { suite.Run(suiteCtx) })
	fromRules, more := probesFor(a.env, rules)
	a.probes.Set(ctx, append(a.ownProbes(), fromRules...), true)
	for _, err := range append(problems, more...) {
		a.log.Warn("Something in the configuration is left out", "error", err.Error())
	}
	a.log.Info("The configuration is in force", "rules", len(rules), "checks", suite.Defaults(), "probes", len(fromRules))
}

// fingerprint changes with everything that configure looks at.
func fingerprint(rules []config.Rule, file *config.File) string {
	names := make([]string, 0, len(file.Rules))
	for i := range file.Rules {
		if file.Rules[i].Health != nil {
			names = append(names, file.Rules[i].Name)
		}
	}
	raw, err := json.Marshal([]any{rules, names})
	if err != nil { // they were read from JSON: cannot happen
		return ""
	}
	return string(raw)
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/checks"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/agent/probes"
)

// suiteFor returns the checks of a node. rules are the rules that match the node, the oldest first. all are all rules
// of the configuration: the check of a rule that matches only other nodes passes. Without a rule with health, the
// default check is node_ready. Invalid checks are returned as problems; they fail.
func suiteFor(env checks.Environment, rules, all []config.Rule) (*checks.Suite, []error) {
	evidence := evidenceOf(rules)
	parts := map[string][]checks.Check{}
	var names []string
	var problems []error
	for _, rule := range rules {
		if rule.Health == nil {
			continue
		}
		for j := range rule.Health.Checks {
			spec := &rule.Health.Checks[j]
			c, err := checks.FromSpec(spec, env, evidence)
			if err != nil {
				err = fmt.Errorf("rule %s: check %s: %w", rule.Name, spec.Name, err)
				problems = append(problems, err)
				reason := checks.Fail(err.Error())
				c = checks.Check{Name: spec.Name, Instant: func() (checks.Result, bool) { return reason, true }}
			}
			if parts[spec.Name] == nil {
				names = append(names, spec.Name)
			}
			parts[spec.Name] = append(parts[spec.Name], c)
		}
	}
	suite := checks.Builtin(env)
	// These evaluate all rules, also if no rule names them as a check.
	suite = append(suite, checks.CustomConditions(env.Node, evidence, nil), checks.Rules(env.Node, evidence))
	for i := range all {
		if all[i].Health != nil {
			suite = append(suite, notHere(all[i].Name))
		}
	}
	for _, e := range evidence {
		suite = append(suite, checks.Rule(env.Node, e))
	}
	for _, name := range names {
		suite = append(suite, checks.All(name, parts[name]))
	}
	return checks.NewSuite(names, suite...), problems
}

func notHere(rule string) checks.Check {
	pass := func() (checks.Result, bool) { return checks.Pass(), true }
	return checks.Check{Name: checks.NameRulePrefix + rule, Instant: pass}
}

func evidenceOf(rules []config.Rule) []checks.Evidence {
	var out []checks.Evidence
	for i := range rules {
		if r := &rules[i]; r.Health != nil {
			out = append(out, checks.Evidence{Name: r.Name, UID: r.UID, Conditions: r.Conditions, AnyOf: r.AnyOf,
				Elsewhere: r.Elsewhere})
		}
	}
	return out
}

// probesFor returns the probes of a node. If two rules publish the same condition, the older one does, and the other
// one is returned as a problem.
func probesFor(env checks.Environment, rules []config.Rule) ([]probes.Probe, []error) {
	var out []probes.Probe
	var problems []error
	owner := map[string]string{}
	for _, rule := range rules {
		for j := range rule.Probes {
			spec := &rule.Probes[j]
			if other, taken := owner[spec.ConditionType]; taken {
				problems = append(problems, fmt.Errorf("rule %s: the condition %s is published by the older rule %s", rule.Name,
					spec.ConditionType, other))
				continue
			}
			if reserved(spec.ConditionType) {
				problems = append(problems, fmt.Errorf("rule %s: the condition %s belongs to kubelet or the cloud provider",
					rule.Name, spec.ConditionType))
				continue
			}
			owner[spec.ConditionType] = rule.Name
			out = append(out, probes.FromSpec(spec, env))
		}
	}
	return out, problems
}

// reserved reports whether probes must not publish a condition. The API refuses these, but the CRD may be of another
// version.
func reserved(conditionType string) bool {
	return conditionType == "" || v1alpha1.KubernetesCondition(conditionType)
}

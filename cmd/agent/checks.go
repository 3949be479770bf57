// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/checks"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/agent/probes"
)

// suiteFor returns the checks of a node. before are the checks until now; nil: none. rules are the rules that match the
// node, the oldest first. all are all rules of the configuration: the check of a rule that matches only other nodes
// passes. Without a rule with health, the default check is node_ready. Invalid checks are returned as problems; they
// fail.
func suiteFor(env checks.Environment, before *checks.Suite, rules, all []config.Rule) (*checks.Suite, []error) {
	rules = slices.DeleteFunc(slices.Clone(rules), func(r config.Rule) bool { return r.Health == nil })
	var ofRules []checks.Check
	var problems []error
	for _, rule := range rules {
		for j := range rule.Health.Checks {
			spec := &rule.Health.Checks[j]
			c, err := checks.FromSpec(spec, env, rules)
			if err != nil {
				err = fmt.Errorf("rule %s: check %s: %w", rule.Name, spec.Name, err)
				problems = append(problems, err)
				c = checks.Always(spec.Name, checks.Fail(err.Error()))
			}
			ofRules = append(ofRules, c)
		}
	}
	others := checks.Builtin(env, rules)
	for _, rule := range rules {
		others = append(others, checks.Rule(env.Node, rule))
	}
	for i := range all { // what is left of them are the rules that match only other nodes
		if all[i].Health != nil {
			others = append(others, checks.Always(checks.NameRulePrefix+all[i].Name, checks.Pass()))
		}
	}
	return checks.NewSuite(before, ofRules, others...), problems
}

// probesFor returns the probes of a node: the agent's own, and those of the rules that match. If two of them publish
// the same condition, the first one does, and the other one is returned as a problem.
func probesFor(env checks.Environment, own []probes.Probe, rules []config.Rule) ([]probes.Probe, []error) {
	out := slices.Clone(own)
	var problems []error
	owner := map[string]string{}
	for i := range own {
		owner[own[i].ConditionType] = "the reporter"
	}
	for _, rule := range rules {
		for j := range rule.Probes {
			name := rule.Probes[j].ConditionType
			switch {
			case owner[name] != "":
				problems = append(problems,
					fmt.Errorf("rule %s: the condition %s is published by %s", rule.Name, name, owner[name]))
			case name == "" || v1alpha1.KubernetesCondition(name): // the API refuses these, unless the CRD is another version's
				problems = append(problems, fmt.Errorf("rule %s: the condition %s belongs to kubelet or the cloud provider",
					rule.Name, name))
			default:
				owner[name] = "the older rule " + rule.Name
				out = append(out, probes.FromSpec(&rule.Probes[j], env))
			}
		}
	}
	return out, problems
}

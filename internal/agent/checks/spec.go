// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/config"
)

// Environment has what all checks have in common.
type Environment struct {
	// Node provides the agent's own node; nil if the agent does not know its name.
	Node NodeSource
	// HostRoot is where the node's root directory is mounted; empty means /.
	HostRoot string
	// WriteRoot is below which directory filesystem_ro finds the directories to write to; empty means HostRoot.
	WriteRoot string
	// NoHostRoot reports that the node's root directory is not mounted: checks of the node's files are misconfigured.
	NoHostRoot bool
	// AllowRemote lets checks of rules connect to addresses of other machines.
	AllowRemote bool
	// Mounts is the memory of filesystem_ro; nil: each check has its own.
	Mounts *Mounts
}

// builtin are the names of the checks that need no parameters.
var builtin = []string{
	NameNodeReady, NameOKDRouter, NameFilesystem, NameKubelet, NameContainerRuntime, NameDiskPressure, NameNetwork,
	NameCustomConditions, NameRules, NameSchedulable,
}

// Builtin returns the checks that need no parameters, with default parameters. rules are all rules with health that
// match the node.
func Builtin(env Environment, rules []config.Rule) []Check {
	all := make([]Check, len(builtin))
	for i, name := range builtin {
		all[i], _ = FromSpec(&v1alpha1.HealthCheck{Name: name}, env, rules) // valid, because it has no parameters
	}
	return all
}

// ForRules returns the checks of a node. before are the checks until now; nil: none. rules are the rules that match the
// node, the oldest first. all are all rules of the configuration: the check of a rule that matches only other nodes
// passes. Without a rule with health, the default check is node_ready. Checks that this agent does not know are
// returned as problems. They fail open, because the operator may be newer than the agent.
func ForRules(env Environment, before *Suite, rules, all []config.Rule) (*Suite, []error) {
	rules = slices.DeleteFunc(slices.Clone(rules), func(r config.Rule) bool { return r.Health == nil })
	var ofRules []Check
	var problems []error
	for _, rule := range rules {
		for j := range rule.Health.Checks {
			spec := &rule.Health.Checks[j]
			c, err := FromSpec(spec, env, rules)
			if err != nil {
				err = fmt.Errorf("rule %s: check %s: %w", rule.Name, spec.Name, err)
				problems = append(problems, err)
				c = Always(spec.Name, FailedOpen(err.Error()))
			}
			ofRules = append(ofRules, c)
		}
	}
	others := Builtin(env, rules)
	for _, rule := range rules {
		others = append(others, Rule(env.Node, rule))
	}
	for i := range all { // what is left of them are the rules that match only other nodes
		if all[i].Health != nil {
			others = append(others, Always(NameRulePrefix+all[i].Name, Pass()))
		}
	}
	return NewSuite(before, ofRules, others...), problems
}

// FromSpec returns a check that a rule configures. rules are all rules with health that match the node. An invalid
// check is an error.
func FromSpec(spec *v1alpha1.HealthCheck, env Environment, rules []config.Rule) (Check, error) {
	c, err := bySpec(spec, env, rules)
	if err != nil {
		return Check{}, err
	}
	if spec.TimeoutSeconds != nil && *spec.TimeoutSeconds > 0 {
		c.Timeout = time.Duration(*spec.TimeoutSeconds) * time.Second
	}
	if c.Instant == nil { // a result from memory needs no cache, and has no run
		c.Period = time.Duration(spec.PeriodSeconds) * time.Second
		identity, _ := json.Marshal(spec) // strings and numbers: cannot fail
		c.Identity = string(identity)
	}
	return c, nil
}

func bySpec(spec *v1alpha1.HealthCheck, env Environment, rules []config.Rule) (Check, error) {
	switch spec.Name {
	case NameNodeReady:
		return NodeReady(env.Node), nil
	case NameOKDRouter:
		return OKDRouter(), nil
	case NameFilesystem:
		return env.OfFiles(FilesystemRO(env, spec.Filesystem, time.Duration(spec.PeriodSeconds)*time.Second)), nil
	case NameKubelet:
		return Kubelet(), nil
	case NameContainerRuntime:
		return env.OfFiles(ContainerRuntime(env.HostRoot, spec.ContainerRuntime)), nil
	case NameDiskPressure:
		return env.OfFiles(DiskPressure(env, spec.Disk)), nil
	case NameNetwork:
		return Network(env, spec.Network), nil
	case NameCustomConditions:
		return CustomConditions(env.Node, rules, spec.CustomConditions), nil
	case NameRules:
		return Rules(env.Node, rules), nil
	case NameSchedulable:
		return Schedulable(env.Node), nil
	}
	if name, ok := strings.CutPrefix(spec.Name, NameRulePrefix); ok {
		i := slices.IndexFunc(rules, func(r config.Rule) bool { return r.Name == name })
		if i < 0 {
			return Check{Name: spec.Name}, nil // the rule does not match the node, or is not in force
		}
		return Rule(env.Node, rules[i]), nil
	}
	if !strings.HasPrefix(spec.Name, NameHTTPPrefix) {
		return Check{}, fmt.Errorf("this agent does not know the check %q", spec.Name)
	}
	if spec.HTTPGet == nil {
		return Check{}, fmt.Errorf("the check %s has no request", spec.Name)
	}
	return HTTP(spec.Name, spec.HTTPGet, env.Dialer())
}

// HostPath returns the path of a node's file in this process. It resolves the node's symbolic links below hostRoot,
// also absolute ones. The kernel would follow these to the agent's own files.
func HostPath(hostRoot, path string) (string, error) {
	if hostRoot == "" || hostRoot == "/" {
		return path, nil
	}
	joined, err := securejoin.SecureJoin(hostRoot, path)
	return joined, reason(err)
}

// OfFiles returns a check of the node's files, which is misconfigured while the agent does not see them. Checking the
// agent's own files would always pass, or always fail.
func (env Environment) OfFiles(c Check) Check {
	const unseen = "the agent does not see the node's files: "
	if env.NoHostRoot {
		return Always(c.Name, Misconfigured(unseen+"--host-root is none"))
	}
	run := c.Run
	c.Run = func(ctx context.Context) Result {
		if nothingAt(env.HostRoot) {
			return Misconfigured(unseen + "nothing is mounted at --host-root " + env.HostRoot)
		}
		return run(ctx)
	}
	return c
}

// nothingAt reports whether a directory is missing or empty, as in a pod without the mount.
func nothingAt(hostRoot string) bool {
	dir, err := os.Open(cmp.Or(hostRoot, "/"))
	if err == nil {
		_, err = dir.Readdirnames(1)
		_ = dir.Close()
	}
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, io.EOF)
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
)

// completionPatience is for how long a shell waits for names.
const completionPatience = 3 * time.Second

// completeNodes completes "node NAME...".
func (p *plugin) completeNodes(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []string{"node"}, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	c, err := p.cluster()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	nodes, err := c.Nodes(ctx, labels.Everything())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return among(names, args, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// completeRules completes names of rules.
func (p *plugin) completeRules(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	c, err := p.cluster()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	rules, err := c.Rules(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := make([]string, 0, len(rules))
	for i := range rules {
		names = append(names, rules[i].Name)
	}
	return among(names, args, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// among are the names that begin as asked for and have not been given yet.
func among(names, given []string, toComplete string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, toComplete) || slices.Contains(given, n) })
}

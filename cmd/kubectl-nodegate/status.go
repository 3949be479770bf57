// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
)

// refresh is how often "status --watch" reads the rules.
const refresh = 2 * time.Second

func newStatus(p *plugin) *cobra.Command {
	var follow bool
	var out *printing
	cmd := &cobra.Command{
		Use:   "status [RULE...]",
		Short: "Show the state of rules, with bars of ready, exempt and held nodes",
		Long: `Show the state of the named rules, or of all, as the operator reports it: how many nodes each rule
selects, and how many of them are ready, held, exempt, failed and pending.`,
		Example: `  kubectl nodegate status
  kubectl nodegate status network -o wide
  kubectl nodegate status -w`,
		ValidArgsFunction: p.complete(ruleList),
		RunE: p.onCluster(func(ctx context.Context, c *input.Cluster, args []string) error {
			if follow {
				return p.follow(ctx, c, args, out)
			}
			list, err := p.statuses(ctx, c, args)
			if err != nil {
				return err
			}
			return out.print(p, list)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "Keep running and show each change, until Ctrl-C.")
	out = newPrinting(cmd, outputName)
	return cmd
}

// statuses returns the state of rules.
func (p *plugin) statuses(ctx context.Context, c *input.Cluster, names []string) (*report.RuleStatusList, error) {
	rules, err := c.Rules(ctx)
	if err != nil {
		return nil, err
	}
	if rules, err = named(rules, names); err != nil {
		return nil, err
	}
	out := report.Statuses(rules)
	out.Operator = c.Operator(ctx)
	if problem := frozen(ctx, c); problem != nil {
		out.Frozen = problem.Message
	}
	out.ManagedBy = c.CRDManagers(ctx)
	return out, nil
}

// follow shows each change until Ctrl-C. It retries after an error that may pass. On a terminal it redraws the same
// lines, so that ages are up to date.
func (p *plugin) follow(ctx context.Context, c *input.Cluster, names []string, out *printing) error {
	var shown *report.RuleStatusList
	err := wait.PollUntilContextCancel(ctx, refresh, true, func(ctx context.Context) (bool, error) {
		list, err := p.statuses(ctx, c, names)
		switch {
		case ctx.Err() != nil:
			return true, nil
		case err != nil && (shown == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) ||
			apierrors.IsUnauthorized(err)):
			return false, err
		case err != nil:
			fmt.Fprintf(p.streams.ErrOut, "warning: %v; retrying\n", err)
			return false, nil
		}
		changed := shown == nil || !equality.Semantic.DeepEqual(shown.Items, list.Items)
		shown = list
		switch {
		case out.text() && out.style(p).Width > 0:
			return false, out.print(p, frame{list})
		case changed:
			return false, out.print(p, list)
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// frame is a list that is drawn over the previous one on a terminal.
type frame struct{ *report.RuleStatusList }

// Text implements report.Report.
func (f frame) Text(style report.Style) string {
	return "\x1b[H" + strings.ReplaceAll(f.RuleStatusList.Text(style), "\n", "\x1b[K\n") + "\x1b[J"
}

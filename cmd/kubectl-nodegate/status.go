// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
)

const (
	settle  = 200 * time.Millisecond // how long to wait for more changes before they are shown together
	retry   = time.Second            // how long to wait before a failed request is retried
	refresh = 10 * time.Second       // how often to look whether an operator leads
)

func newStatus(p *plugin) *cobra.Command {
	var follow bool
	var out *printing
	cmd := &cobra.Command{
		Use:   "status [RULE...]",
		Short: "Show the state of rules, with bars of ready, exempt and held nodes",
		Long: `Show the state of the named rules, or of all, as the operator reports it: how many nodes each rule
selects, and how many of them are ready, held, exempt, failed and pending.`,
		Example:           "  kubectl nodegate status\n  kubectl nodegate status -w",
		ValidArgsFunction: p.completeRules(),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			if follow {
				return p.follow(cmd.Context(), c, args, out)
			}
			list, _, err := p.statuses(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			return out.print(p, list)
		},
	}
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "Keep running and show each change, until Ctrl-C.")
	out = newPrinting(cmd)
	return cmd
}

// statuses returns the state of rules, and the resource version of their list.
func (p *plugin) statuses(ctx context.Context, c *input.Cluster, names []string) (*report.RuleStatusList, string,
	error) {
	rules := &v1alpha1.NodeReadinessRuleList{}
	if err := c.List(ctx, rules); err != nil {
		return nil, "", input.Explain(err, "listing rules")
	}
	chosen, err := named(rules.Items, names)
	if err != nil {
		return nil, "", err
	}
	out := report.Statuses(chosen)
	out.Operator = c.Operator(ctx, p.now())
	if other := c.OtherController(ctx, p.now()); other != nil {
		out.OtherController = other.Message
	}
	out.ManagedBy = c.CRDManagers(ctx)
	return out, rules.ResourceVersion, nil
}

// follow shows each change until Ctrl-C. After an error that may pass it lists the rules again.
func (p *plugin) follow(ctx context.Context, c *input.Cluster, names []string, out *printing) error {
	for first := true; ctx.Err() == nil; {
		list, version, err := p.statuses(ctx, c, names)
		if err == nil {
			var r report.Report = list
			if out.text() {
				r = frame{list, first}
			}
			if err := out.print(p, r); err != nil {
				return err
			}
			first = false
			err = changed(ctx, c, version)
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case first || errors.Is(err, errNoRule) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
			return err
		default:
			fmt.Fprintf(p.streams.ErrOut, "warning: %v; retrying\n", err)
			sleep(ctx, retry)
		}
	}
	return nil
}

// changed returns when a rule has changed since a version, or it is time to look again.
func changed(ctx context.Context, c *input.Cluster, version string) error {
	since := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}}
	w, err := c.Watch(ctx, &v1alpha1.NodeReadinessRuleList{}, since)
	if err != nil {
		return input.Explain(err, "watching rules")
	}
	defer w.Stop()
	select {
	case <-ctx.Done():
	case <-time.After(refresh):
	case event := <-w.ResultChan():
		if event.Type == watch.Error {
			err = apierrors.FromObject(event.Object)
		}
		sleep(ctx, settle)
	}
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return nil
	}
	return input.Explain(err, "watching rules")
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// frame is a list that is drawn over the previous one. The first clears the terminal.
type frame struct {
	*report.RuleStatusList
	first bool
}

// Text implements report.Report.
func (f frame) Text(style report.Style) string {
	text := f.RuleStatusList.Text(style)
	if style.Width == 0 { // not a terminal
		return text
	}
	text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
	if f.first {
		text = "\x1b[2J" + text
	}
	return text
}

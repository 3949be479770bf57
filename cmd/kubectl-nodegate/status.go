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
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/cluster"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/plugin/text"
)

type statusOptions struct {
	watch bool
	out   *printing
}

func newStatus(p *plugin) *cobra.Command {
	o := &statusOptions{}
	cmd := &cobra.Command{
		Use:               "status [RULE...]",
		Short:             "Show how rules stand, with bars of ready, exempt and held nodes",
		Long:              "Show how the named rules stand, or all, by the operator's own reports: how many nodes each selects, and how many of them are\nready, held, exempt, failed and pending.",
		Example:           "  kubectl nodegate status\n  kubectl nodegate status -w",
		ValidArgsFunction: p.completeRules,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.status(cmd.Context(), args, o) },
	}
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "Go on and show each change, until Ctrl-C.")
	o.out = newPrinting(cmd)
	return cmd
}

func (p *plugin) status(ctx context.Context, names []string, o *statusOptions) error {
	if err := o.out.validate(); err != nil {
		return err
	}
	c, err := p.cluster()
	if err != nil {
		return err
	}
	list, version, err := p.statuses(ctx, c, names)
	if err != nil {
		return err
	}
	s := &screen{}
	if err := p.show(s, list, o); err != nil || !o.watch {
		return err
	}
	return p.follow(ctx, c, names, version, s, o)
}

// statuses are how the rules stand, and the version of the list.
func (p *plugin) statuses(ctx context.Context, c *cluster.Cluster, names []string) (*report.RuleStatusList, string, error) {
	rules := &v1alpha1.NodeReadinessRuleList{}
	if err := c.Client.List(ctx, rules); err != nil {
		return nil, "", cluster.Explain(err, "listing rules")
	}
	chosen, err := named(rules.Items, names)
	if err != nil {
		return nil, "", err
	}
	list := make([]v1alpha1.NodeReadinessRule, 0, len(chosen))
	for _, r := range chosen {
		list = append(list, *r)
	}
	out := report.Statuses(list)
	out.Operator = c.Operator(ctx, p.now())
	return out, rules.ResourceVersion, nil
}

// show shows a list: on a terminal in the place of the last one.
func (p *plugin) show(s *screen, list *report.RuleStatusList, o *statusOptions) error {
	if !o.out.text() {
		return o.out.print(p, list, nil)
	}
	return o.out.print(p, list, func(style text.Style) string {
		if !o.watch || style.Width == 0 {
			return text.Status(list, style)
		}
		return s.frame(text.Status(list, style), style.Height)
	})
}

const (
	// settle is how long to wait for further changes before they are shown together.
	settle = 200 * time.Millisecond
	// retry is how long to wait before a watch that has ended is begun again.
	retry = time.Second
	// refresh is how often to look whether an operator leads, which no rule tells.
	refresh = 10 * time.Second
)

// follow shows each change. A watch that ends is begun again with a fresh list; Ctrl-C ends it in good order.
func (p *plugin) follow(ctx context.Context, c *cluster.Cluster, names []string, version string, s *screen, o *statusOptions) error {
	for ctx.Err() == nil {
		err := changed(ctx, c, version)
		if ctx.Err() != nil {
			break
		}
		var list *report.RuleStatusList
		if err == nil {
			list, version, err = p.statuses(ctx, c, names)
		}
		if err == nil {
			if err := p.show(s, list, o); err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, errNoRule) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return err
		}
		if ctx.Err() == nil {
			fmt.Fprintf(p.streams.ErrOut, "%v; trying again\n", err)
			s.leave()
			version = ""
			pause(ctx, retry)
		}
	}
	return nil
}

// changed returns when something about rules has changed since a version, or it is time to look again.
func changed(ctx context.Context, c *cluster.Cluster, version string) error {
	if version == "" {
		return nil
	}
	options := &client.ListOptions{}
	options.Raw = options.AsListOptions()
	options.Raw.ResourceVersion = version
	w, err := c.Client.Watch(ctx, &v1alpha1.NodeReadinessRuleList{}, options)
	if err != nil {
		return cluster.Explain(err, "watching rules")
	}
	defer w.Stop()
	select {
	case <-ctx.Done():
	case <-time.After(refresh):
	case event, open := <-w.ResultChan():
		if open && event.Type == watch.Error && !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) && !apierrors.IsGone(apierrors.FromObject(event.Object)) {
			return cluster.Explain(apierrors.FromObject(event.Object), "watching rules")
		}
		pause(ctx, settle)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// screen draws texts, each in the place of the last one.
type screen struct{ lines int }

// frame is what to write for a text so that it stands in the place of the last one. Where that has scrolled away, the
// terminal is cleared.
func (s *screen) frame(content string, height int) string {
	back := ""
	switch {
	case s.lines >= height:
		back = "\x1b[H\x1b[2J"
	case s.lines > 0:
		back = fmt.Sprintf("\x1b[%dA", s.lines)
	}
	s.lines = strings.Count(content, "\n")
	return back + strings.ReplaceAll(content, "\n", "\x1b[K\n") + "\x1b[J"
}

// leave lets what stands there stand, since something else was written below.
func (s *screen) leave() { s.lines = 0 }

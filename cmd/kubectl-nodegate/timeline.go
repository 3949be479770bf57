// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/sources"
)

func newTimeline(p *plugin) *cobra.Command {
	var out *printing
	cmd := &cobra.Command{
		Use:   "timeline NODE",
		Short: "Show a node's start as a chart",
		Long: `Show a node's start as a chart: when each piece of evidence turned true, when all did, when each rule
released the node, and when the first of the pods that are there now started. What the API server no
longer knows is unknown. A rule that is in dry-run, suspended or frozen releases no node.`,
		Example: "  kubectl nodegate timeline worker-3\n  kubectl nodegate timeline worker-3 -o json",
		RunE: p.onCluster(func(ctx context.Context, c *input.Cluster, args []string) error {
			return p.timeline(ctx, c, args, out)
		}),
		ValidArgsFunction: p.complete(nodeList),
	}
	out = newPrinting(cmd, outputName)
	return cmd
}

func (p *plugin) timeline(ctx context.Context, c *input.Cluster, args []string, out *printing) error {
	if names, err := nodeNames(args); err != nil || len(names) != 1 {
		return cmp.Or(err, errors.New("exactly one node name is required"))
	}
	nodes, moment, err := p.read(ctx, c, args, "")
	if err != nil {
		return err
	}
	e := moment.Node(nodes[0])
	pod, err := firstPod(ctx, c, nodes[0].Name)
	if err != nil {
		e.Unread = append(e.Unread, err.Error())
	}
	return out.print(p, report.NewTimeline(e, pod, err == nil))
}

// firstPod returns when the first pod started on a node of those that are still there and are not part of the node: of
// a DaemonSet, or static. It is nil if there is none.
func firstPod(ctx context.Context, c *input.Cluster, node string) (*time.Time, error) {
	pods, err := input.List[*corev1.Pod](ctx, c, "pods", &corev1.PodList{}, client.MatchingFields{"spec.nodeName": node})
	var first *time.Time
	for _, pod := range pods {
		if pod.Status.StartTime == nil || sources.PartOfNode(pod) {
			continue
		}
		if first == nil || pod.Status.StartTime.Time.Before(*first) {
			first = &pod.Status.StartTime.Time
		}
	}
	return first, err
}

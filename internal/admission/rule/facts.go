// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

// sample is the number of pods that are read. The pods of one workload are alike.
const sample = 50

// Cluster reads the facts for warnings. The plugin uses it, too.
type Cluster struct {
	// Nodes reads nodes from a cache.
	Nodes client.Reader
	// Live reads workloads from the API server. Rules are written so seldom that a cache is not worth its memory.
	Live client.Reader
	// Namespace is the operator's own namespace, if this process is the operator. If it is empty, the operator is looked
	// for in all namespaces.
	Namespace string
	// Access creates reviews of access, which store nothing. If it is nil, no review is made.
	Access client.Writer
	// Serving is what only the operator knows, or nil if this process is not the operator.
	Serving *Serving
}

// Facts returns the facts about the cluster for some rules. With an error, it returns the facts that could be read.
func (c *Cluster) Facts(ctx context.Context, rules ...*ruleset.Rule) (lint.Facts, error) {
	facts := lint.Facts{}
	nodes := &corev1.NodeList{}
	errs := []error{c.Nodes.List(ctx, nodes, client.UnsafeDisableDeepCopy)}
	for i := range nodes.Items {
		facts.Nodes = append(facts.Nodes, &nodes.Items[i])
	}
	workloads, err := c.workloads(ctx, rules)
	facts.Workloads, errs = workloads, append(errs, err)
	if facts.Drivers, err = c.drivers(ctx, rules, workloads); !apierrors.IsForbidden(err) { // a user may lack permissions
		errs = append(errs, err)
	}
	operator, err := c.pods(ctx, c.Namespace, client.MatchingLabels{"app.kubernetes.io/name": "nodegate",
		"app.kubernetes.io/component": "manager"})
	facts.Operator, errs = operator, append(errs, err)
	if facts.Unwatched, err = c.unwatched(ctx, rules, operator); !apierrors.IsForbidden(err) {
		errs = append(errs, err) // few users may ask what the operator may do
	}
	facts.Served, err = c.Served(ctx, rules...)
	return facts, errors.Join(append(errs, err)...)
}

// workloads returns the DaemonSets in the namespaces that rules require, or in all, where one may bring evidence that a
// rule requires; and the other workloads of the pods that they require. It returns nil if no rule requires either, or
// if they cannot be read.
func (c *Cluster) workloads(ctx context.Context, rules []*ruleset.Rule) ([]lint.Workload, error) {
	namespaces, required := sets.New[string](), []*evidence.Pods{}
	for _, rule := range rules {
		namespaces, required = namespaces.Union(rule.Namespaces()), append(required, rule.Pods()...)
	}
	if slices.ContainsFunc(rules, lint.Provided) {
		namespaces = sets.New(metav1.NamespaceAll)
	}
	if namespaces.Len() == 0 {
		return nil, nil
	}
	out := []lint.Workload{}
	for _, p := range required {
		pods, err := c.pods(ctx, p.Namespace, client.MatchingLabelsSelector{Selector: p.Labels})
		if err != nil {
			return nil, err
		}
		for _, w := range pods {
			same := func(o lint.Workload) bool { return o.String() == w.String() && maps.Equal(o.Labels, w.Labels) }
			if w.Kind != "DaemonSet" && !slices.ContainsFunc(out, same) { // rules may require the same pods
				out = append(out, w)
			}
		}
	}
	for _, namespace := range sets.List(namespaces) {
		daemonSets, err := c.daemonSets(ctx, namespace)
		if err != nil {
			return nil, err
		}
		out = append(out, daemonSets...)
	}
	return out, nil
}

// daemonSets returns the DaemonSets of a namespace, or of all.
func (c *Cluster) daemonSets(ctx context.Context, namespace string) ([]lint.Workload, error) {
	list := &appsv1.DaemonSetList{}
	if err := c.Live.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing DaemonSets of %s: %w", cmp.Or(namespace, "all namespaces"), err)
	}
	var out []lint.Workload
	for i := range list.Items {
		out = append(out, lint.DaemonSet(&list.Items[i]))
	}
	return out, nil
}

// drivers returns the CSI drivers that nodes have registered, by the node; nil if no rule requires one, except those
// that a workload registers.
func (c *Cluster) drivers(ctx context.Context, rules []*ruleset.Rule, known []lint.Workload) (map[string][]string,
	error) {
	if !slices.ContainsFunc(rules, func(r *ruleset.Rule) bool { return lint.NeedsDrivers(r, known) }) {
		return nil, nil
	}
	list := &storagev1.CSINodeList{}
	if err := c.Live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing CSINodes: %w", err)
	}
	out := map[string][]string{}
	for i := range list.Items {
		for _, d := range list.Items[i].Spec.Drivers {
			out[list.Items[i].Name] = append(out[list.Items[i].Name], d.Name)
		}
	}
	return out, nil
}

// pods returns the workloads of some pods of a namespace.
func (c *Cluster) pods(ctx context.Context, namespace string, which client.ListOption) ([]lint.Workload, error) {
	list := &corev1.PodList{}
	if err := c.Live.List(ctx, list, client.InNamespace(namespace), which, client.Limit(sample)); err != nil {
		return nil, fmt.Errorf("listing pods of namespace %s: %w", namespace, err)
	}
	var out []lint.Workload
	seen := map[string]bool{}
	for i := range list.Items {
		p := &list.Items[i]
		w := lint.Workload{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, Pod: &p.Spec}
		if owner := metav1.GetControllerOf(p); owner != nil {
			w.Kind, w.Name = owner.Kind, owner.Name
		}
		if id := w.Kind + "/" + w.Name; !seen[id] {
			seen[id] = true
			out = append(out, w)
		}
	}
	return out, nil
}

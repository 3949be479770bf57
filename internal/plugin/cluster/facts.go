// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/plugin/files"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

// operatorLabels are those of the operator's deployment.
var operatorLabels = client.MatchingLabels{"app.kubernetes.io/name": "nodegate", "app.kubernetes.io/component": "manager"}

// Facts adds what the warnings about rules want to know of the cluster. It returns what could not be read: of that nothing is
// added.
func (c *Cluster) Facts(ctx context.Context, set *ruleset.Set, facts *lint.Facts) []error {
	var problems []error
	nodes, err := c.Nodes(ctx, labels.Everything())
	if err != nil {
		problems = append(problems, err)
	}
	facts.Nodes = nodes

	namespaces := sets.New[string]()
	for _, rule := range set.All() {
		for _, p := range rule.Pods() {
			namespaces.Insert(p.Namespace)
		}
	}
	for _, namespace := range sets.List(namespaces) {
		found, err := c.workloads(ctx, client.InNamespace(namespace))
		if err != nil {
			facts.Workloads = nil
			problems = append(problems, fmt.Errorf("what makes the pods of namespace %s is not known: %w", namespace, err))
			break
		}
		facts.Workloads = append(facts.Workloads, found...)
	}
	if namespaces.Len() > 0 && len(problems) == 0 && facts.Workloads == nil {
		facts.Workloads = []lint.Workload{}
	}

	deployments := &appsv1.DeploymentList{}
	if err := c.Client.List(ctx, deployments, operatorLabels); err != nil {
		return append(problems, Explain(err, "looking for the operator's deployment"))
	}
	for i := range deployments.Items {
		if w, ok := files.Workload(&deployments.Items[i]); ok {
			facts.Operator = append(facts.Operator, w)
		}
	}
	return problems
}

func (c *Cluster) workloads(ctx context.Context, in client.InNamespace) ([]lint.Workload, error) {
	var out []lint.Workload
	for _, list := range []client.ObjectList{&appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.PodList{}} {
		if err := c.Client.List(ctx, list, in); err != nil {
			return nil, Explain(err, "listing workloads")
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			if w, ok := files.Workload(o); ok {
				out = append(out, w)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/apigroup"
	"github.com/nodegate/nodegate/internal/plugin/input"
)

var errFields = errors.New("the API server does not keep all fields: the CRDs of both API groups must be of the same " +
	"version of Nodegate")

// unfinished is the error that the operator of the former group must run once more before the change.
type unfinished struct{ error }

// deleting returns the error that a rule is being deleted. Only the operator of its group can remove its taints.
func deleting(name string) error {
	return unfinished{fmt.Errorf("rule %q is being deleted: start the operator until it has finished that, or run "+
		"kubectl nodegate cleanup", name)}
}

// failure says what has failed. The plugin's roles do not allow the change, so it names the one that does.
func failure(err error, doing string) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s: permission denied: this needs the permissions of cluster-admin: %w", doing, err)
	}
	return input.Explain(err, doing)
}

// stopped returns an error if an operator runs, or may start at any time. It would edit rules that have been copied,
// and their statuses.
func (m *move) stopped(ctx context.Context) error {
	leader, err := m.c.Leader(ctx)
	switch {
	case err != nil:
		return failure(err, "listing leases")
	case leader != "":
		return fmt.Errorf("operator %s is running, according to its lease: scale its Deployment to 0, and retry in a minute",
			leader)
	}
	deployments, err := input.List[*appsv1.Deployment](ctx, m.c, "the operator's Deployment", &appsv1.DeploymentList{},
		input.OperatorLabels)
	for _, d := range deployments {
		if ptr.Deref(d.Spec.Replicas, 1) > 0 {
			return fmt.Errorf("the operator must be stopped: run kubectl -n %s scale deployment %s --replicas=0", d.Namespace,
				d.Name)
		}
	}
	return err
}

// unowned returns an error if the group to which the rules move is another controller's.
func (m *move) unowned(ctx context.Context) error {
	if m.to.Own() {
		return nil
	}
	return apigroup.CheckDefault(ctx, m.c, m.c.Now)
}

// moved returns an error if a node still has annotations of rules that these rules continue: after another move, none
// would continue those.
func (m *move) moved(ctx context.Context) error {
	nodes, err := m.c.Nodes(ctx, labels.Everything())
	for _, node := range nodes {
		for key := range node.Annotations {
			if i := slices.IndexFunc(m.rules, func(of predecessor) bool {
				uid := predecessorOf(of.rule)
				return uid != "" && strings.HasSuffix(key, "-"+uid)
			}); i >= 0 {
				return unfinished{fmt.Errorf("node %s has annotations of the rule that %s continues: start the operator with "+
					"--api-group=%s, until it has moved the annotations of all nodes", node.Name, m.rules[i].rule.GetName(),
					m.from.Name)}
			}
		}
	}
	return err
}

// try asks the server whether it would create the copies with all fields.
func (m *move) try(ctx context.Context) error {
	var failed []error
	for i := range m.rules {
		of := m.rules[i]
		if of.successor != nil {
			continue
		}
		want := m.copyOf(of.rule)
		tried := want.DeepCopy()
		err := m.c.Create(ctx, tried, client.DryRunAll)
		if err == nil && !equality.Semantic.DeepEqual(tried.Object["spec"], want.Object["spec"]) {
			err = errFields
		}
		if err == nil {
			continue
		}
		failed = append(failed, failure(err, fmt.Sprintf("copying rule %q", of.rule.GetName())))
		if !apierrors.IsInvalid(err) { // it is about all rules
			break
		}
	}
	return errors.Join(failed...)
}

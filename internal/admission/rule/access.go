// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"cmp"
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

// unwatched returns the namespaces whose DaemonSets rules require and the operator may not watch. What cannot be asked
// is left out. operator are the workloads of the operator.
func (c *Cluster) unwatched(ctx context.Context, rules []*ruleset.Rule, operator []lint.Workload) ([]string, error) {
	if c.Access == nil {
		return nil, nil
	}
	namespaces := sets.New[string]()
	for _, rule := range rules {
		for _, q := range rule.DaemonSets() {
			for _, namespace := range q.Namespaces {
				namespaces.Insert(string(namespace))
			}
		}
	}
	var out []string
	for _, namespace := range sets.List(namespaces) {
		may, err := c.mayWatch(ctx, namespace, operator)
		if err != nil {
			return nil, err
		}
		if !may {
			out = append(out, namespace)
		}
	}
	return out, nil
}

// mayWatch asks the API server about the account of this process, if it is the operator, or else about the account of
// the operator's pods. It is true if they are not known.
func (c *Cluster) mayWatch(ctx context.Context, namespace string, operator []lint.Workload) (bool, error) {
	attributes := &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "watch", Group: "apps",
		Resource: "daemonsets"}
	if c.Namespace != "" {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
		err := c.Access.Create(ctx, review)
		return review.Status.Allowed, err
	}
	if len(operator) == 0 {
		return true, nil
	}
	own, account := operator[0].Namespace, cmp.Or(operator[0].Pod.ServiceAccountName, "default")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: attributes,
		User:               "system:serviceaccount:" + own + ":" + account,
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + own, "system:authenticated"},
	}}
	err := c.Access.Create(ctx, review)
	return review.Status.Allowed, err
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/apigroup"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// findGroup chooses the API group in which the installation in the cluster serves rules. The installation has recorded
// it in AdmissionRules, and the operator's deployment has it. If neither tells, it is the only group that the cluster
// serves, which may be another controller's, or the default. A user who may not look gets the default.
func findGroup(ctx context.Context, config *rest.Config) error {
	if deadline, ok := ctx.Deadline(); ok { // discovery has no context
		config = rest.CopyConfig(config)
		if left := time.Until(deadline); config.Timeout == 0 || left < config.Timeout {
			config.Timeout = left
		}
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(appsv1.AddToScheme(scheme))
	utilruntime.Must(admissionv1alpha1.AddToScheme(scheme))
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	switch object, err := apigroup.Recorded(ctx, c); {
	case err != nil && !apierrors.IsForbidden(err):
		return err
	case object != nil:
		if name, ok := v1alpha1.GroupOf(object.MarkerPrefix); ok {
			return v1alpha1.Serve(name)
		}
	}
	if name := (&Cluster{WithWatch: c}).deployedGroup(ctx); name != "" {
		return v1alpha1.Serve(name)
	}
	served, err := servedGroups(config)
	if err != nil {
		return err
	}
	switch len(served) {
	case 0:
		return v1alpha1.Serve(v1alpha1.GroupNames()[0])
	case 1:
		return v1alpha1.Serve(served[0])
	}
	return fmt.Errorf("the cluster serves rules in the API groups %s, and neither AdmissionRules nor the "+
		"operator's Deployment tells which one is Nodegate's: set --api-group", strings.Join(served, " and "))
}

// deployedGroup returns the API group in the arguments of the operator's deployment. It is empty if there is none that
// the user may read, or if several differ. Any user can create a deployment with these labels, so it is no proof.
func (c *Cluster) deployedGroup(ctx context.Context) string {
	var groups []string
	for _, args := range operatorArgs(ctx, c) {
		name := ""
		if values := valuesOf("--api-group", args); len(values) > 0 {
			name = values[len(values)-1] // the operator takes the last one
		}
		groups = append(groups, cmp.Or(name, v1alpha1.GroupNames()[0]))
	}
	if slices.Sort(groups); len(slices.Compact(groups)) != 1 {
		return ""
	}
	return groups[0]
}

// servedGroups returns the API groups of rules that the cluster serves, as far as the user may ask.
func servedGroups(config *rest.Config) (served []string, err error) {
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	for _, group := range v1alpha1.GroupNames() {
		version := schema.GroupVersion{Group: group, Version: v1alpha1.Version}
		switch _, err := discovered.ServerResourcesForGroupVersion(version.String()); {
		case err == nil:
			served = append(served, group)
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return nil, err
		}
	}
	return served, nil
}

// OtherRules returns the rules in the API group that this process does not serve, in the version that is served.
func (c *Cluster) OtherRules(ctx context.Context) ([]*unstructured.Unstructured, error) {
	group := v1alpha1.OtherGroup().Name
	mapping, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: "NodeReadinessRule"})
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	what := "the rules in the API group " + group
	if err != nil {
		return nil, Explain(err, "finding "+what)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind)
	return List[*unstructured.Unstructured](ctx, c, what, list)
}

// CheckInstalled returns an error unless Nodegate serves, or served, the API group of this process in the cluster.
// nodes are all nodes: a record on them, and the finalizer of Nodegate's own group, tell of rules of the other group.
func (c *Cluster) CheckInstalled(ctx context.Context, nodes []*corev1.Node) error {
	group, other := v1alpha1.Served().Name, v1alpha1.OtherGroup()
	if !v1alpha1.Served().Own() {
		switch problem, err := apigroup.Incumbent(ctx, c, c.Now); {
		case err != nil:
			return Explain(err, "checking the API group")
		case problem != nil:
			return errors.New(problem.Message)
		}
	}
	if err := apigroup.CheckRules(ctx, c, c.GroupGiven, c.Now); err != nil {
		return Explain(err, "checking the API group")
	}
	if deployed := c.deployedGroup(ctx); deployed != "" && deployed != group {
		return fmt.Errorf("the operator's Deployment serves the API group %s, not %s: set --api-group=%[1]s", deployed, group)
	}
	rules, err := c.OtherRules(ctx)
	if err != nil {
		return err
	}
	for _, rule := range rules {
		recorded := func(n *corev1.Node) bool {
			_, ok := n.Annotations[v1alpha1.RecordAnnotationPrefix+string(rule.GetUID())]
			return ok
		}
		if other.Own() && slices.Contains(rule.GetFinalizers(), other.Finalizer) || slices.ContainsFunc(nodes, recorded) {
			return fmt.Errorf("rule %s in the API group %s is Nodegate's: set --api-group=%[2]s, not %s", rule.GetName(),
				other.Name, group)
		}
	}
	return nil
}

// OtherController returns the problem that a Node Readiness Controller renews its lease; nil if none does, if it cannot
// be known, or if Nodegate acts beside it, in its own API group.
func (c *Cluster) OtherController(ctx context.Context) *ruleset.Problem {
	l, leads, _ := c.lease(ctx, ruleset.IncumbentLease)
	if !leads || v1alpha1.Served().Own() {
		return nil
	}
	return ruleset.OtherController(l.Namespace, *l.Spec.HolderIdentity)
}

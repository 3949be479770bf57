// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
)

const (
	// pageSize is how many objects are asked for at a time.
	pageSize = 500
	// leaseName and operatorNamespace are where the operator says that it leads.
	leaseName         = "nodegate.readiness.node.x-k8s.io"
	operatorNamespace = "nodegate-system"
	// leasePatience is how old a lease may be, by the clock of this machine, before nobody is said to lead.
	leasePatience = time.Minute
)

// Cluster reads from an API server.
type Cluster struct {
	// Client is for rules and nodes, and for whoever writes them.
	Client client.WithWatch
	// Clients are for everything else.
	Clients kubernetes.Interface
}

// Scheme knows what the plugin reads and writes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// New reads with a configuration. Nothing is asked of the server yet.
func New(config *rest.Config) (*Cluster, error) {
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme()})
	if err != nil {
		return nil, Explain(err, "connecting to the cluster")
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, Explain(err, "connecting to the cluster")
	}
	return &Cluster{Client: c, Clients: clients}, nil
}

// Rules are all rules.
func (c *Cluster) Rules(ctx context.Context) ([]v1alpha1.NodeReadinessRule, error) {
	list := &v1alpha1.NodeReadinessRuleList{}
	if err := c.Client.List(ctx, list); err != nil {
		return nil, Explain(err, "listing rules")
	}
	return list.Items, nil
}

// Node is one node.
func (c *Cluster) Node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil, Explain(err, fmt.Sprintf("reading node %q", name))
	}
	return node, nil
}

// Nodes are all nodes with labels, page by page.
func (c *Cluster) Nodes(ctx context.Context, selector labels.Selector) ([]*corev1.Node, error) {
	var out []*corev1.Node
	next := ""
	for {
		list := &corev1.NodeList{}
		options := &client.ListOptions{LabelSelector: selector, Limit: pageSize, Continue: next}
		if err := c.Client.List(ctx, list, options); err != nil {
			return nil, Explain(err, "listing nodes")
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
		if next = list.Continue; next == "" {
			return out, nil
		}
	}
}

// Pods are all pods that have not ended, page by page.
func (c *Cluster) Pods(ctx context.Context) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	next := ""
	for {
		list := &corev1.PodList{}
		ended := fields.AndSelectors(
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
		)
		if err := c.Client.List(ctx, list, &client.ListOptions{FieldSelector: ended, Limit: pageSize, Continue: next}); err != nil {
			return nil, Explain(err, "listing pods")
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
		if next = list.Continue; next == "" {
			return out, nil
		}
	}
}

// Evidence reads what the rules of a set need.
func (c *Cluster) Evidence(ctx context.Context, set *ruleset.Set) *evidence.Snapshot {
	return evidence.Read(ctx, c.Clients, set)
}

// Events are the events on a node.
func (c *Cluster) Events(ctx context.Context, node string) ([]corev1.Event, error) {
	list, err := c.Clients.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.kind": "Node", "involvedObject.name": node}.String(),
	})
	if err != nil {
		return nil, Explain(err, "listing events")
	}
	return list.Items, nil
}

// Operator is whether a replica of the operator leads, by its lease; nil, where there is none to be read. It may be read in
// all namespaces, or in the usual one, or not at all.
func (c *Cluster) Operator(ctx context.Context, now time.Time) *report.Operator {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", leaseName).String()}
	leases, err := c.Clients.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, options)
	if err != nil {
		if leases, err = c.Clients.CoordinationV1().Leases(operatorNamespace).List(ctx, options); err != nil {
			return nil
		}
	}
	var out *report.Operator
	for i := range leases.Items {
		spec := &leases.Items[i].Spec
		if spec.RenewTime == nil || out != nil && spec.RenewTime.Time.Before(out.RenewedAt.Time) {
			continue
		}
		out = &report.Operator{RenewedAt: metav1.NewTime(spec.RenewTime.Time)}
		if spec.HolderIdentity != nil {
			out.Leader = *spec.HolderIdentity
		}
		out.Leads = out.Leader != "" && now.Sub(spec.RenewTime.Time) < leasePatience
	}
	return out
}

// Compile compiles rules as the operator has them: those that it reports to have frozen, because it cannot read their
// evidence or another definition of rules is served, and those that require each other in a circle, are frozen.
func Compile(rules []v1alpha1.NodeReadinessRule, now time.Time) *ruleset.Set {
	compiled := make([]*ruleset.Rule, 0, len(rules))
	for i := range rules {
		r := ruleset.Compile(&rules[i], nil, now)
		if p := reportedProblem(&rules[i]); p != nil && r.Mode != ruleset.Deleting && r.Mode != ruleset.Frozen {
			r = r.Freeze(*p)
		}
		compiled = append(compiled, r)
	}
	return ruleset.NewSet(compiled...).BreakCycles(ruleset.NewSet())
}

// reportedProblem is why the operator has frozen a rule that there is nothing wrong with; nil, if it has not.
func reportedProblem(rule *v1alpha1.NodeReadinessRule) *ruleset.Problem {
	c := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status == metav1.ConditionTrue || c.ObservedGeneration != rule.Generation {
		return nil
	}
	if c.Reason != evidence.ReasonUnavailable && c.Reason != ruleset.ReasonForeignCRD {
		return nil
	}
	return &ruleset.Problem{Reason: c.Reason, Message: "the operator says: " + c.Message}
}

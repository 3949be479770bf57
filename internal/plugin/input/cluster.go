// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/apigroup"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/serverclock"
	"github.com/nodegate/nodegate/internal/sources"
)

const (
	leaseName = "operator.nodegate.io"
	// Namespace is the namespace that the manifests and the documentation install the operator in.
	Namespace = "nodegate-system"
)

// OperatorLabels are the labels of the operator's deployment and its pods.
var OperatorLabels = client.MatchingLabels{
	"app.kubernetes.io/name": "nodegate", "app.kubernetes.io/component": "manager",
}

// AgentLabels are the labels of the pods of node agents.
var AgentLabels = client.MatchingLabels{"app.kubernetes.io/name": "nodegate", "app.kubernetes.io/component": "agent"}

// Cluster reads from an API server.
type Cluster struct {
	client.WithWatch
	Clients kubernetes.Interface
	// Now tells the time by the API server's clock: leases count by it, and that of a user's machine may be wrong.
	Now func() time.Time
	// GroupGiven reports whether the user has chosen the API group of the rules.
	GroupGiven bool
}

// Scheme returns a scheme with the types that the plugin reads and writes, with rules in the API group that is served.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(admissionv1alpha1.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	return scheme
}

// failing is a transport for requests to a server that cannot be reached.
type failing struct{ err error }

// RoundTrip implements http.RoundTripper.
func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// New returns a cluster for a configuration. Without a group, it asks the server in which API group it serves rules.
func New(ctx context.Context, config *rest.Config, group string) (*Cluster, error) {
	if group != "" {
		if err := v1alpha1.Serve(group); err != nil {
			return nil, fmt.Errorf("--api-group: %w", err)
		}
	} else if err := findGroup(ctx, config); err != nil {
		unreachable := (*url.Error)(nil)
		if !errors.As(err, &unreachable) {
			return nil, Explain(err, "finding the API group of the rules")
		}
		// The command's first request fails in the same way, without another wait.
		config = rest.CopyConfig(config)
		config.Wrap(func(http.RoundTripper) http.RoundTripper { return failing{unreachable.Err} })
	}
	server := &serverclock.Clock{Own: clock.RealClock{}}
	config = rest.CopyConfig(config)
	config.Wrap(server.Wrap)
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme()})
	if err != nil {
		return nil, Explain(err, "connecting to the cluster")
	}
	clients, err := kubernetes.NewForConfig(config)
	out := &Cluster{WithWatch: c, Clients: clients, Now: server.Now, GroupGiven: group != ""}
	return out, Explain(err, "connecting to the cluster")
}

// List lists objects, page by page. The kind of list must be that of T.
func List[T runtime.Object](ctx context.Context, c *Cluster, what string, list client.ObjectList,
	options ...client.ListOption,
) (out []T, err error) {
	err = pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		page, _ := list.DeepCopyObject().(client.ObjectList) // a copy has the same type
		return page, c.List(ctx, page, append(options, client.Limit(o.Limit), client.Continue(o.Continue))...)
	}).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if item, ok := o.(T); ok {
			out = append(out, item)
		}
		return nil
	})
	return out, Explain(err, "listing "+what)
}

// Rules returns all rules.
func (c *Cluster) Rules(ctx context.Context) ([]v1alpha1.NodeReadinessRule, error) {
	list := &v1alpha1.NodeReadinessRuleList{}
	err := c.List(ctx, list)
	return list.Items, Explain(err, "listing rules")
}

// Node returns one node.
func (c *Cluster) Node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, node)
	return node, Explain(err, fmt.Sprintf("reading node %q", name))
}

// Nodes returns all nodes that a selector selects.
func (c *Cluster) Nodes(ctx context.Context, selector labels.Selector) ([]*corev1.Node, error) {
	return List[*corev1.Node](ctx, c, "nodes", &corev1.NodeList{}, client.MatchingLabelsSelector{Selector: selector})
}

// Pods returns all pods that have not ended.
func (c *Cluster) Pods(ctx context.Context) ([]*corev1.Pod, error) {
	return List[*corev1.Pod](ctx, c, "pods", &corev1.PodList{}, client.MatchingFieldsSelector{Selector: sources.NotEnded})
}

// lease returns the lease of a name that was renewed last, and whether its holder leads; nil if there is none. If the
// user may not read leases in all namespaces, it returns that error, and the lease of the usual namespace if it can be
// read.
func (c *Cluster) lease(ctx context.Context, name string) (last *coordinationv1.Lease, leads bool, err error) {
	named, leases := client.MatchingFields{"metadata.name": name}, &coordinationv1.LeaseList{}
	if err = c.List(ctx, leases, named); err != nil {
		_ = c.List(ctx, leases, named, client.InNamespace(Namespace)) // the first error says what is missing
	}
	last, leads = apigroup.Renewed(leases.Items, c.Now())
	return last, leads, err
}

// Operator tells by its lease whether a replica of the operator leads; nil if that is not known.
func (c *Cluster) Operator(ctx context.Context) *report.Operator {
	l, leads, _ := c.lease(ctx, leaseName)
	if l == nil {
		return nil
	}
	return &report.Operator{Leader: ptr.Deref(l.Spec.HolderIdentity, ""), Leads: leads,
		RenewedAt: metav1.NewTime(serverclock.Renewed(l))}
}

// Leader returns which replica of the operator leads; empty if none does. It returns an error if it found none, and
// cannot read the leases of all namespaces.
func (c *Cluster) Leader(ctx context.Context) (string, error) {
	l, leads, err := c.lease(ctx, leaseName)
	if leads {
		return *l.Spec.HolderIdentity, nil
	}
	return "", err
}

// Read reads the evidence for the rules of a set on the named nodes, or on all, and the operator's settings for it. If
// the user may not read the operator's deployment, the defaults count.
func (c *Cluster) Read(ctx context.Context, set *ruleset.Set, nodes ...string) *sources.Snapshot {
	s := sources.Read(ctx, c.Clients, set, nodes...)
	s.TransientTaintPrefixes = c.TransientTaintPrefixes(ctx)
	return s
}

// TransientTaintPrefixes returns the setting of the operator, or the default if its deployment cannot be read.
func (c *Cluster) TransientTaintPrefixes(ctx context.Context) []string {
	return c.prefixes(ctx, "--transient-taint-prefixes", evidence.DefaultTransientTaintPrefixes)
}

// RuleKeyPrefixes returns the prefixes of the keys that the operator allows in rules. It is empty if all are allowed,
// or if the operator's deployment cannot be read.
func (c *Cluster) RuleKeyPrefixes(ctx context.Context) []string {
	return c.prefixes(ctx, "--rule-key-prefixes", nil)
}

// prefixes returns the value of a flag of the operator that takes a list, or a default if its deployment does not have
// the flag or cannot be read. As in the operator, the lists of several flags count together.
func (c *Cluster) prefixes(ctx context.Context, flag string, otherwise []string) (out []string) {
	values := valuesOf(flag, slices.Concat(operatorArgs(ctx, c)...))
	if len(values) == 0 {
		return otherwise
	}
	return strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool { return r == ',' })
}

// valuesOf returns the values of a flag in arguments. A value may be the next argument.
func valuesOf(flag string, args []string) (values []string) {
	for i, arg := range args {
		if after, found := strings.CutPrefix(arg, flag+"="); found {
			values = append(values, after)
		} else if arg == flag && i+1 < len(args) {
			values = append(values, args[i+1])
		}
	}
	return values
}

// operatorArgs returns the command and the arguments of each deployment of the operator, or none if it cannot be read.
func operatorArgs(ctx context.Context, c *Cluster) (out [][]string) {
	deployments, _ := List[*appsv1.Deployment](ctx, c, "the operator's deployment", &appsv1.DeploymentList{},
		OperatorLabels)
	for _, d := range deployments {
		var args []string
		for _, container := range d.Spec.Template.Spec.Containers {
			args = slices.Concat(args, container.Command, container.Args)
		}
		out = append(out, args)
	}
	return out
}

// Foreign returns the taints that another controller manages beside an installation in Nodegate's own API group.
func (c *Cluster) Foreign(ctx context.Context) (ruleset.Foreign, error) {
	out := ruleset.Foreign{}
	if !v1alpha1.Served().Own() {
		return out, nil
	}
	rules, err := c.OtherRules(ctx)
	ours, _ := c.Rules(ctx) // none if their CRD is deleted
	for _, rule := range rules {
		isCopy := slices.ContainsFunc(ours, func(o v1alpha1.NodeReadinessRule) bool {
			return string(o.UID) == rule.GetAnnotations()[v1alpha1.SuccessorAnnotation]
		})
		if id, managed := ruleset.ForeignTaint(rule.Object); managed && !isCopy {
			out.Add(rule.GetName(), id)
		}
	}
	return out, err
}

// CRDManagers returns what suggests that another party manages the CRD: labels of add-on managers, and field managers.
// It is only a hint, because both outlive a takeover.
func (c *Cluster) CRDManagers(ctx context.Context) []string {
	served := &apiextensionsv1.CustomResourceDefinition{}
	if c.Get(ctx, client.ObjectKey{Name: crd.Name()}, served) != nil {
		return nil
	}
	var out []string
	if mode, ok := served.Labels[ruleset.AddOnManager]; ok {
		out = append(out, "label "+ruleset.AddOnManager+"="+mode)
	}
	for i := range served.ManagedFields {
		manager := served.ManagedFields[i].Manager
		hint := "field manager " + manager
		if strings.Contains(manager, "addon") && !slices.Contains(out, hint) {
			out = append(out, hint)
		}
	}
	return out
}

// reportedReasons are the reasons for which a rule is frozen that only the operator knows for certain.
var reportedReasons = []string{
	ruleset.ReasonUnavailable, ruleset.ReasonForeignCRD, ruleset.ReasonForeignRule, ruleset.ReasonForbiddenKey,
}

// Compile compiles rules as the operator has them. It freezes rules that the operator reports as frozen for one of
// reportedReasons, and rules that require each other in a circle.
func Compile(rules []v1alpha1.NodeReadinessRule, now time.Time) *ruleset.Set {
	compiled, reported := make([]*ruleset.Rule, 0, len(rules)), map[types.UID]*ruleset.Problem{}
	for i := range rules {
		compiled = append(compiled, ruleset.Compile(&rules[i], nil, now))
		c := meta.FindStatusCondition(rules[i].Status.Conditions, v1alpha1.ConditionReady)
		if c != nil && c.Status != metav1.ConditionTrue && c.ObservedGeneration == rules[i].Generation &&
			slices.Contains(reportedReasons, c.Reason) {
			reported[rules[i].UID] = &ruleset.Problem{Reason: c.Reason, Message: "the operator reports: " + c.Message}
		}
	}
	known := ruleset.Known{Unavailable: func(r *ruleset.Rule) *ruleset.Problem { return reported[r.UID] }}
	return ruleset.NewSet(compiled...).Resolve(known, ruleset.NewSet())
}

// Explain adds to an error of the API server what the plugin did and what the user can do.
func Explain(err error, doing string) error {
	hint := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: interrupted", doing)
	case clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("%s: no cluster is configured: set KUBECONFIG, --kubeconfig or --server", doing)
	case meta.IsNoMatchError(err):
		hint = "the server does not have the CRD NodeReadinessRule: install Nodegate, or choose another cluster with " +
			"--context: "
	case apierrors.IsNotFound(err):
		return err // it names the kind and the object, as kubectl does
	case apierrors.IsForbidden(err):
		hint = "permission denied: ask your cluster administrator for " + missing(err) + ", or use --context or --as: "
	case apierrors.IsUnauthorized(err):
		hint = "you must be logged in to the server: log in again, or use another user with --context: "
	case utilnet.IsConnectionRefused(err), utilnet.IsTimeout(err), utilnet.IsNoRoutesError(err):
		hint = "the server cannot be reached: did you specify the right one (kubectl config current-context)? "
	}
	return fmt.Errorf("%s: %s%w", doing, hint, err)
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"cmp"
	"context"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
	"github.com/nodegate/nodegate/test/build"
)

// installed is an API server with these node agents and webhooks.
type installed struct {
	client.Client
	agents   []string // their namespaces
	phase    corev1.PodPhase
	webhooks []string
	user     string // of the last review of access
}

func (i *installed) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	pods, _ := list.(*corev1.PodList)
	phase := fields.Set{"status.phase": string(cmp.Or(i.phase, corev1.PodRunning))}
	for _, namespace := range i.agents {
		if (o.Namespace == "" || o.Namespace == namespace) && (o.FieldSelector == nil || o.FieldSelector.Matches(phase)) {
			pods.Items = append(pods.Items, corev1.Pod{})
		}
	}
	return nil
}

func (i *installed) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if i.webhooks == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	configuration, _ := o.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	for _, name := range i.webhooks {
		configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.ValidatingWebhook{Name: name})
	}
	return nil
}

func (i *installed) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if review, ok := o.(*authorizationv1.SubjectAccessReview); ok {
		i.user = review.Spec.User
	}
	return nil
}

func TestServed(t *testing.T) {
	all := network("a")
	all.Spec.Health = &v1alpha1.Health{}
	all.Spec.PodAdmission, all.Spec.NodeAdmission = v1alpha1.PodAdmissionDeny, v1alpha1.NodeAdmissionTaint
	operator := func(configuration string, engine bool) *Serving {
		return &Serving{AgentNamespace: "nodegate-system", Configuration: configuration,
			Engine: func() bool { return engine }}
	}
	for name, c := range map[string]struct {
		in      installed
		serving *Serving
		want    lint.Served
	}{
		"all": {in: installed{agents: []string{"nodegate-system"}, webhooks: []string{"x", bindingWebhook}},
			serving: operator("w", true), want: lint.Served{Agents: new(true), PodAdmission: new(true),
				NodeAdmission: new(true)}},
		"agents elsewhere, another webhook, no engine": {in: installed{agents: []string{"x"}, webhooks: []string{"x"}},
			serving: operator("w", false), want: lint.Served{Agents: new(false), PodAdmission: new(false),
				NodeAdmission: new(false)}},
		"no configuration": {serving: operator("w", true), want: lint.Served{Agents: new(false), PodAdmission: new(false),
			NodeAdmission: new(true)}},
		"no webhooks": {in: installed{webhooks: []string{bindingWebhook}}, serving: operator("", true),
			want: lint.Served{Agents: new(false), PodAdmission: new(false), NodeAdmission: new(true)}},
		"agents that cannot start": {in: installed{agents: []string{"nodegate-system"}, phase: corev1.PodPending},
			serving: operator("", true), want: lint.Served{Agents: new(false), PodAdmission: new(false),
				NodeAdmission: new(true)}},
		"agents without a configuration": {in: installed{agents: []string{"nodegate-system"}},
			serving: &Serving{Engine: func() bool { return true }}, want: lint.Served{Agents: new(false),
				PodAdmission: new(false), NodeAdmission: new(true)}},
		"the plugin": {in: installed{agents: []string{"x"}}, want: lint.Served{Agents: new(true)}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &Cluster{Live: &c.in, Serving: c.serving}
			got, err := cluster.Served(t.Context(), ruleset.Compile(all.Obj(), nil, now))
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// providing is an API server with a DaemonSet, if it may be listed.
type providing struct {
	client.Client
	refusal error
}

func (p *providing) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if found, ok := list.(*appsv1.DaemonSetList); ok && p.refusal == nil {
		found.Items = append(found.Items, *build.MakeDaemonSet("kube-system", "driver").Obj())
	}
	return p.refusal
}

// TestRunning: DaemonSets are listed if one may provide the evidence of a rule, and if the operator may list them.
func TestRunning(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "daemonsets"}, "", nil)
	driver := network("a").Evidence(v1alpha1.Requirement{Name: "csi",
		CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.com"}})
	for name, c := range map[string]struct {
		rule    *build.RuleWrapper
		refusal error
		bare    bool // the operator serves no webhooks
		found   int
		fails   bool
	}{
		"a provider":            {rule: driver, found: 1},
		"without webhooks":      {rule: driver, bare: true},
		"without permission":    {rule: driver, refusal: forbidden},
		"an API server fails":   {rule: driver, refusal: apierrors.NewInternalError(context.Canceled), fails: true},
		"nothing of a provider": {rule: network("a")},
	} {
		serving := &Serving{Configuration: "w", Engine: func() bool { return true }}
		if c.bare {
			serving.Configuration = ""
		}
		cluster := &Cluster{Live: &providing{refusal: c.refusal}, Serving: serving}
		got, err := cluster.Running(t.Context(), ruleset.Compile(c.rule.Obj(), nil, now))
		if len(got.DaemonSets) != c.found || (err != nil) != c.fails {
			t.Errorf("%s: found %d, %v", name, len(got.DaemonSets), err)
		}
	}
}

// TestAccount: the account of a pod that names none is "default".
func TestAccount(t *testing.T) {
	for account, want := range map[string]string{"": "default", "nodegate": "nodegate"} {
		server := &installed{}
		cluster := &Cluster{Access: server}
		operator := []lint.Workload{{Namespace: "n", Pod: &corev1.PodSpec{ServiceAccountName: account}}}
		if _, err := cluster.mayWatch(t.Context(), "kube-system", operator); err != nil {
			t.Fatal(err)
		}
		if server.user != "system:serviceaccount:n:"+want {
			t.Errorf("account %q: asks about %s", account, server.user)
		}
	}
}

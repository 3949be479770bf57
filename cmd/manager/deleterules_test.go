// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

func deletes(t *testing.T, server *cluster.Cluster, crds apiextensions.CustomResourceDefinitionInterface) {
	create := func(names ...string) {
		t.Helper()
		for _, name := range names {
			rule := build.MakeRule(name).Selector("a", "b").Condition("example.com/Ready").
				Taint("readiness.k8s.io/Ready", "", "NoSchedule").Obj()
			rule.Finalizers = []string{v1alpha1.Served().Finalizer}
			if err := server.Client.Create(t.Context(), rule); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() (names []string) {
		t.Helper()
		list := &v1alpha1.NodeReadinessRuleList{}
		if err := server.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names
	}
	// release takes the finalizer off, as the operator does when the nodes are clean.
	release := func(ctx context.Context, name string) error {
		rule := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return server.Client.Patch(ctx, rule, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"finalizers":null}}`)))
	}
	// With an operator: the first look after a deletion finds the rule, and then it goes.
	operated := interceptor.NewClient(server.Client, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if o.GetAnnotations()[v1alpha1.RemoveMarkersAnnotation] != "true" {
				t.Errorf("rule %s would leave its markers", o.GetName())
			}
			return errors.Join(c.Delete(ctx, o, opts...), release(ctx, o.GetName()))
		},
	})
	said := func(names ...string) string {
		for i, n := range names {
			names[i] = "nodereadinessrule.readiness.node.x-k8s.io/" + n + " deleted\n"
		}
		return strings.Join(names, "")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	create("network", "storage", "others")
	out := &bytes.Buffer{}
	if err := deleteRules(ctx, operated, []string{"network", "not-there"}, out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(said("network"), out.String()); diff != "" {
		t.Errorf("named: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"others", "storage"}, left()); diff != "" {
		t.Errorf("of the rules that are not named: -want +got:\n%s", diff)
	}

	out.Reset()
	short, end := context.WithCancel(t.Context())
	defer end()
	looks := 0
	unattended := interceptor.NewClient(server.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			if looks++; looks == 3 {
				end() // the time is over
			}
			return err
		},
	})
	err := deleteRules(short, unattended, []string{"storage"}, out)
	if err == nil || !strings.Contains(err.Error(), "deletion of storage:") ||
		!strings.Contains(err.Error(), "is it running?") {
		t.Errorf("without an operator: %v", err)
	}
	if out.Len() > 0 {
		t.Errorf("it says that what is there is gone: %q", out)
	}

	// A second attempt goes on where the first one gave up.
	if err := release(t.Context(), "storage"); err != nil {
		t.Fatal(err)
	}
	refusals := 0
	flaky := interceptor.NewClient(operated, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if refusals++; refusals == 1 {
				return apierrors.NewForbidden(v1alpha1.GroupVersion().WithResource("nodereadinessrules").GroupResource(), "",
					errors.New("not yet"))
			}
			return c.List(ctx, list, opts...)
		},
	})
	if err := deleteRules(ctx, flaky, nil, out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(said("others"), out.String()); diff != "" || len(left()) > 0 {
		t.Errorf("all: left %q, -want +got:\n%s", left(), diff)
	}

	short, end = context.WithCancel(t.Context())
	defer end()
	attempts := 0
	refused := interceptor.NewClient(server.Client, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			if attempts++; attempts == 2 {
				end()
			}
			return errors.New("not you")
		},
	})
	if err := deleteRules(short, refused, nil, out); err == nil || !strings.Contains(err.Error(), "not you") {
		t.Errorf("what the API server refuses is not told: %v", err)
	}

	deleteDefinition(t, crds)
	for _, names := range [][]string{nil, {"network"}} {
		if err := deleteRules(ctx, server.Client, names, out); err != nil {
			t.Errorf("without the CRD there is nothing to delete: %v", err)
		}
		fresh, err := client.New(server.Config(), client.Options{Scheme: cluster.Scheme()}) // which never knew of it
		if err != nil {
			t.Fatal(err)
		}
		if err := deleteRules(ctx, fresh, names, out); err != nil {
			t.Errorf("nor for a client that has just started: %v", err)
		}
	}
}

func TestDeleteRulesRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"one or more rule names, or --all, are":  {"delete-rules"},
		"or --all, are required":                 {"delete-rules", "--all", "network"},
		"--timeout: must be more than 0, not 0s": {"delete-rules", "network", "--timeout=0s"},
	} {
		cmd := newCommand(&options{})
		cmd.SetArgs(args)
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}

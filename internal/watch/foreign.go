// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// lookForForeign is how often to look for the CRD of another controller while it is missing or cannot be read.
const lookForForeign = 5 * time.Second

// Foreign watches the rules of another controller in the default API group, for an installation in Nodegate's own one,
// and freezes the rules of Nodegate that have the same taints. The other controller's CRD may come, go, and change its
// version, so each list asks for the version. If the rules cannot be read, the last ones count. Until they have been
// read once, Rules has not synced: a replica that does not know them could remove taints that are not its own.
type Foreign struct {
	Discovery rest.Interface
	Client    dynamic.Interface
	Rules     *Rules
}

// Setup makes Rules wait until the other controller's rules have been read.
func (f *Foreign) Setup() { f.Rules.unread.Store(true) }

// Start implements manager.Runnable.
func (f *Foreign) Start(ctx context.Context) error {
	for {
		began := time.Now()
		found, err := f.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Cannot read the rules of another controller", "group", v1alpha1.GroupNames()[0])
		}
		pause := lookForForeign
		if found && err == nil { // the API server ends each watch after some minutes
			pause = interval - time.Since(began)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves webhooks by the rules.
func (*Foreign) NeedLeaderElection() bool { return false }

// follow lists the other controller's rules, if it has any, and follows their changes until the watch ends.
func (f *Foreign) follow(ctx context.Context) (found bool, err error) {
	group := &metav1.APIGroup{}
	err = f.Discovery.Get().AbsPath("/apis/" + v1alpha1.GroupNames()[0]).Do(ctx).Into(group)
	var list *unstructured.UnstructuredList
	var rules dynamic.NamespaceableResourceInterface
	if err == nil {
		rules = f.Client.Resource(schema.GroupVersionResource{Group: group.Name, Version: group.PreferredVersion.Version,
			Resource: "nodereadinessrules"})
		list, err = rules.List(ctx, metav1.ListOptions{})
	}
	known := map[string]*unstructured.Unstructured{}
	if apierrors.IsNotFound(err) {
		f.serve(known)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("listing rules: %w", err)
	}
	for i := range list.Items {
		known[list.Items[i].GetName()] = &list.Items[i]
	}
	f.serve(known)
	stream, err := rules.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return false, fmt.Errorf("watching rules: %w", err)
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		rule, ok := event.Object.(*unstructured.Unstructured)
		switch {
		case event.Type == watch.Error:
			return true, apierrors.FromObject(event.Object)
		case !ok:
		case event.Type == watch.Deleted:
			delete(known, rule.GetName())
		default:
			known[rule.GetName()] = rule
		}
		f.serve(known)
	}
	return true, nil
}

func (f *Foreign) serve(rules map[string]*unstructured.Unstructured) {
	foreign := ruleset.Foreign{}
	for name, rule := range rules {
		foreign.Add(name, rule.Object)
	}
	f.Rules.setForeign(foreign)
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apigroup says which API group an installation of Nodegate serves in a cluster, and whose the rules are.
// The default group may be another controller's, so each tool that deletes or replaces something there asks here first.
// It writes nothing.
package apigroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/serverclock"
)

// leasePatience is how old a lease may be before its holder counts as gone.
const leasePatience = time.Minute

// Recorded returns what the installation in the cluster has recorded: its API group is that of the markerPrefix. It is
// nil if no installation has recorded anything.
func Recorded(ctx context.Context, c client.Reader) (*admissionv1alpha1.AdmissionRules, error) {
	object := &admissionv1alpha1.AdmissionRules{}
	err := c.Get(ctx, client.ObjectKey{Name: admissionv1alpha1.Name}, object)
	if meta.IsNoMatchError(err) || client.IgnoreNotFound(err) == nil && err != nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading which API group Nodegate serves in this cluster: %w", err)
	}
	return object, nil
}

// Check returns an error if the installation in the cluster serves another API group than this process. It reports
// whether the installation has recorded its group.
func Check(ctx context.Context, c client.Reader) (recorded bool, err error) {
	object, err := Recorded(ctx, c)
	if err != nil || object == nil {
		return false, err
	}
	return true, ruleset.CheckGroup(object)
}

// CheckRules returns an error unless the rules in the API group of this process are Nodegate's, so that a tool may
// delete them. It takes a user's word if the group was given. now tells the time by the API server's clock: that of a
// user's machine may be wrong.
func CheckRules(ctx context.Context, c client.Reader, given bool, now func() time.Time) error {
	recorded, err := Check(ctx, c)
	group := v1alpha1.Served()
	if err != nil || given || group.Own() {
		return err
	}
	other, err := Incumbent(ctx, c, now)
	switch {
	case err != nil:
		return err
	case other == nil && recorded:
		return nil
	}
	why := "the object AdmissionRules, in which Nodegate records its group, does not exist"
	if other != nil {
		why = other.Message
	}
	return fmt.Errorf("the rules in the API group %s may belong to another controller: %s. If they are Nodegate's, set "+
		"--api-group=%[1]s (API_GROUP for make)", group.Name, why)
}

// CheckCRD returns an error if the CRD of rules is that of another controller that runs: no installation of Nodegate
// has recorded that it serves the default group, and a Node Readiness Controller renews its lease or an add-on manager
// restores the CRD.
func CheckCRD(ctx context.Context, c client.Reader, now func() time.Time) error {
	recorded, err := Check(ctx, c)
	if err != nil || recorded || v1alpha1.Served().Own() {
		return err
	}
	return CheckDefault(ctx, c, now)
}

// CheckDefault returns an error if a Node Readiness Controller acts on the rules of the default group, or if an add-on
// manager restores their CRD.
func CheckDefault(ctx context.Context, c client.Reader, now func() time.Time) error {
	other, err := Incumbent(ctx, c, now)
	if err != nil {
		return err
	}
	if other != nil {
		return errors.New(other.Message)
	}
	served := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: crd.NameIn(v1alpha1.GroupNames()[0])}
	if err := c.Get(ctx, key, served); err != nil {
		return client.IgnoreNotFound(err)
	}
	if mode, ok := served.Labels[ruleset.AddOnManager]; ok {
		return fmt.Errorf("an add-on manager manages the CRD %s, which has the label %s=%s: turn the add-on off at your "+
			"provider, and remove the label; or install Nodegate in its own API group, with --api-group=%s", served.Name,
			ruleset.AddOnManager, mode, v1alpha1.GroupNames()[1])
	}
	return nil
}

// Incumbent returns the problem that a Node Readiness Controller renews its lease, or nil.
func Incumbent(ctx context.Context, c client.Reader, now func() time.Time) (*ruleset.Problem, error) {
	leases := &coordinationv1.LeaseList{}
	if err := c.List(ctx, leases, client.MatchingFields{"metadata.name": ruleset.IncumbentLease}); err != nil {
		return nil, fmt.Errorf("listing leases named %s: %w", ruleset.IncumbentLease, err)
	}
	if last, leads := Renewed(leases.Items, now()); leads {
		return ruleset.OtherController(last.Namespace, *last.Spec.HolderIdentity), nil
	}
	return nil, nil
}

// Renewed returns the lease that was renewed last, and whether its holder leads; nil if none was renewed. now is by the
// API server's clock. Leases of kubelets do not count: a node may have any name.
func Renewed(leases []coordinationv1.Lease, now time.Time) (last *coordinationv1.Lease, leads bool) {
	for i := range leases {
		l := &leases[i]
		if l.Namespace != corev1.NamespaceNodeLease && l.Spec.RenewTime != nil &&
			(last == nil || serverclock.Renewed(l).After(serverclock.Renewed(last))) {
			last = l
		}
	}
	return last, last != nil && ptr.Deref(last.Spec.HolderIdentity, "") != "" &&
		now.Sub(serverclock.Renewed(last)) < leasePatience
}

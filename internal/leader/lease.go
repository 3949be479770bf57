// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Lease is the lease by which replicas elect a leader. nil means that there is no election.
type Lease struct {
	client.ObjectKey
	// Labels are the labels that this process sets when it takes the lease. Each process has other values.
	Labels map[string]string
}

var errDeposed = errors.New("this process leads no longer: another one has the lease")

// Write creates an object, or updates the version of it that was read, if this process has the lease.
//
// A successor writes the object after it has taken the lease. So it has not written the version that was read, or the
// lease tells, which is read after that.
func (l *Lease) Write(ctx context.Context, api client.Client, object client.Object) error {
	if err := l.Held(ctx, api); err != nil {
		return err
	}
	if object.GetResourceVersion() == "" {
		return api.Create(ctx, object)
	}
	err := api.Update(ctx, object)
	if apierrors.IsNotFound(err) { // deleted since it was read
		return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), err)
	}
	return err
}

// Held returns an error unless this process has the lease.
func (l *Lease) Held(ctx context.Context, api client.Reader) error {
	if l == nil {
		return nil
	}
	lease := &coordinationv1.Lease{}
	if err := client.IgnoreNotFound(api.Get(ctx, l.ObjectKey, lease)); err != nil {
		return fmt.Errorf("reading the lease: %w", err)
	}
	for key, value := range l.Labels {
		if lease.Labels[key] != value || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			return errDeposed
		}
	}
	return nil
}

// Retry reads and writes an object again if another client has changed or deleted it meanwhile.
func Retry(readAndWrite func() error) error {
	return retry.OnError(retry.DefaultBackoff, changed, readAndWrite)
}

func changed(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// Lasts reports whether an error may last until a person does something. The API server gives no reason if an object is
// too large for etcd.
func Lasts(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return meta.IsNoMatchError(err)
	}
	switch status.Status().Code {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

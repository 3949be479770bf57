// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/watch"
)

// Managed are the settings of a certificate that the operator keeps itself.
type Managed struct {
	// Namespace is the operator's own namespace.
	Namespace string
	// Name is the name of the Service, of both webhook configurations, and, with "-cert", of the Secret.
	Name string
	// Clock tells the time by the API server's clock, which validates the certificate.
	Clock clock.PassiveClock

	// The defaults are a year and more. Tests shorten them.
	CALifetime, Lifetime, RenewBefore, CheckEvery time.Duration

	// Amend, if set, changes each webhook configuration further whenever it is checked.
	Amend func(*unstructured.Unstructured) error
}

// SecretKey is where the certificate and its authority are kept.
func (m Managed) SecretKey() types.NamespacedName {
	return types.NamespacedName{Namespace: m.Namespace, Name: m.Name + "-cert"}
}

// Add lets a manager keep the certificate.
func (m Managed) Add(ctx context.Context, mgr manager.Manager) (*Certificate, error) {
	const day = 24 * time.Hour
	m.CALifetime, m.Lifetime = cmp.Or(m.CALifetime, 10*365*day), cmp.Or(m.Lifetime, 365*day)
	m.RenewBefore, m.CheckEvery = cmp.Or(m.RenewBefore, 90*day), cmp.Or(m.CheckEvery, 10*time.Minute)
	live, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(),
		Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("creating a client for the webhooks' certificate: %w", err)
	}
	k := &keeper{
		Managed: m, live: live, changed: make(chan struct{}, 1),
		certificate: waiting(m.Clock, "the webhooks' certificate is not in Secret %s yet", m.SecretKey()),
	}
	changes, err := k.follow(ctx, mgr)
	if err != nil {
		return nil, err
	}
	err = errors.Join(mgr.Add(admission.EveryReplica(changes.Start)), mgr.Add(admission.EveryReplica(k.run)))
	if err != nil {
		return nil, fmt.Errorf("managing the webhooks' certificate: %w", err)
	}
	return k.certificate, nil
}

// follow returns a cache that watches only the Secret and the webhook configurations. After each change the keeper
// checks all of them. If they cannot be watched, the keeper still checks them from time to time.
func (k *keeper) follow(ctx context.Context, mgr manager.Manager) (cache.Cache, error) {
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	secret := cache.ByObject{Namespaces: map[string]cache.Config{
		k.Namespace: {FieldSelector: named(k.SecretKey().Name)},
	}}
	watched := map[client.Object]cache.ByObject{
		&corev1.Secret{}: secret,
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   {Field: named(k.Name)},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: {Field: named(k.Name)},
	}
	changes, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), ByObject: watched,
	})
	if err != nil {
		return nil, fmt.Errorf("creating a cache for the webhooks' certificate: %w", err)
	}
	check := func(client.Object) {
		select {
		case k.changed <- struct{}{}:
		default:
		}
	}
	for o := range watched {
		if _, err := watch.Follow(ctx, changes, o, check, check); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodegate/nodegate/internal/admission"
)

// Managed says how the operator keeps its certificate itself.
type Managed struct {
	// Namespace is the operator's own.
	Namespace string
	// Name is the name of the Service, of both webhook configurations, and, with "-cert", of the Secret.
	Name string
	// Dir is a directory of this process: a copy of the certificate, without the key, is put there.
	Dir string

	// These have good defaults, of a year and more. Tests shorten them.
	CALifetime, Lifetime, RenewBefore, CheckEvery time.Duration

	// Amend, if set, changes each webhook configuration further whenever whom to trust is written into it.
	Amend func(*unstructured.Unstructured) error

	controller string // its name, where tests run several in a process
}

// SecretKey is where the certificate and its authority are kept.
func (m Managed) SecretKey() types.NamespacedName {
	return types.NamespacedName{Namespace: m.Namespace, Name: m.Name + "-cert"}
}

// Add lets a manager keep the certificate.
func (m Managed) Add(ctx context.Context, mgr manager.Manager) (*Certificate, error) {
	key := m.SecretKey()
	writer, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(),
		Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client for the webhooks' certificate: %w", err)
	}
	if err := ensureSecret(ctx, writer, key); err != nil {
		return nil, err
	}
	c := waiting("the webhooks' certificate is not in Secret %s yet", key)
	ready := make(chan struct{})
	err = rotator.AddRotator(uncached{mgr, amending{writer, m.Amend}}, &rotator.CertRotator{
		SecretKey:      key,
		CertDir:        m.Dir,
		CAName:         "nodegate-ca",
		CAOrganization: "nodegate",
		DNSName:        m.Name + "." + m.Namespace + ".svc",
		// The last one is for development: an API server on the same machine calls an operator outside of the cluster.
		ExtraDNSNames: []string{m.Name + "." + m.Namespace, m.Name + "." + m.Namespace + ".svc.cluster.local", "localhost"},
		IsReady:       ready,
		Webhooks: []rotator.WebhookInfo{
			{Name: m.Name, Type: rotator.Validating},
			{Name: m.Name, Type: rotator.Mutating},
		},
		FieldOwner:             "nodegate",
		ControllerName:         m.controller,
		CaCertDuration:         m.CALifetime,
		ServerCertDuration:     m.Lifetime,
		LookaheadInterval:      m.RenewBefore,
		RotationCheckFrequency: m.CheckEvery,
	})
	if err != nil {
		return nil, fmt.Errorf("keeping the webhooks' certificate: %w", err)
	}
	secrets, err := c.followSecret(ctx, mgr, key, m.Dir)
	if err != nil {
		return nil, err
	}
	injected := admission.EveryReplica(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-ready:
			c.trust()
		}
		return nil
	})
	if err := addAll(mgr, admission.EveryReplica(secrets.Start), injected, c.complain(patience)); err != nil {
		return nil, fmt.Errorf("keeping the webhooks' certificate: %w", err)
	}
	return c, nil
}

// uncached is a manager whose client writes without waiting for the manager's cache to see it: nothing here reads from
// that cache, and it would have to watch every Secret and webhook configuration for it.
type uncached struct {
	manager.Manager
	client client.Client
}

// GetClient implements manager.Manager.
func (u uncached) GetClient() client.Client { return u.client }

// amending is a client that amends the webhook configurations that it writes; the library has them unstructured.
type amending struct {
	client.Client
	amend func(*unstructured.Unstructured) error
}

// Update implements client.Client.
func (a amending) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if u, ok := obj.(*unstructured.Unstructured); ok && a.amend != nil {
		if err := a.amend(u); err != nil {
			return fmt.Errorf("amending %s %q: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return a.Client.Update(ctx, obj, opts...)
}

// ensureSecret makes sure that there is a Secret to keep the certificate in. It comes with the manifests; who runs the
// operator as an administrator, outside of a cluster, gets one.
func ensureSecret(ctx context.Context, c client.Client, key types.NamespacedName) error {
	err := c.Get(ctx, key, &corev1.Secret{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading Secret %s for the webhooks' certificate: %w", key, err)
	}
	err = c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the Secret %s, in which the webhooks' certificate is kept, is missing and cannot be created: %w "+
			"(apply the operator's manifests again, or start it with --enable-webhook=false)", key, err)
	}
	return nil
}

// followSecret serves the certificate in a Secret, and puts a copy into the directory, where the rotator waits for it.
// It returns the cache by which that is done, which watches nothing else.
func (c *Certificate) followSecret(ctx context.Context, mgr manager.Manager, key types.NamespacedName,
	dir string) (cache.Cache, error) {
	secrets, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: map[string]cache.Config{
			key.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", key.Name)},
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache of Secret %s: %w", key, err)
	}
	informer, err := secrets.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching Secret %s: %w", key, err)
	}
	logger := log.FromContext(ctx).WithName("certs").WithValues("secret", key)
	take := func(obj any) {
		secret, ok := obj.(*corev1.Secret)
		if !ok || len(secret.Data[certFile]) == 0 {
			return
		}
		if err := c.take(secret, dir); err != nil {
			c.fail(err)
			logger.Error(err, "Cannot serve webhooks with this certificate")
			return
		}
		logger.Info("Serving webhooks with a certificate from a Secret", "resourceVersion", secret.ResourceVersion)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: take, UpdateFunc: func(_, obj any) { take(obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching Secret %s: %w", key, err)
	}
	return secrets, nil
}

func (c *Certificate) take(secret *corev1.Secret, dir string) error {
	pair, err := tls.X509KeyPair(secret.Data[certFile], secret.Data[keyFile])
	if err != nil {
		return fmt.Errorf("the webhooks' certificate in Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	c.set(&pair)
	if err := os.WriteFile(filepath.Join(dir, certFile), secret.Data[certFile], 0o600); err != nil {
		return fmt.Errorf("keeping a copy of the webhooks' certificate: %w", err)
	}
	return nil
}

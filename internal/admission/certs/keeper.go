// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	fieldOwner = "nodegate"

	caCertFile = "ca.crt"
	caKeyFile  = "ca.key"
	caName     = "nodegate-ca"

	// After a failure the keeper tries again, with a delay that doubles from the first to the last of these.
	firstRetry, lastRetry = 500 * time.Millisecond, 15 * time.Second

	// checkInterval is the least time between two checks after the first checksAtOnce: another program, such as
	// cainjector, may write another authority each time.
	checkInterval, checksAtOnce = time.Second, 10

	// injectAnnotation is on webhook configurations into which cert-manager's cainjector writes the authority.
	injectAnnotation = "cert-manager.io/inject-ca-from"
)

// keeper keeps the certificate in its Secret, and its authority in the webhook configurations. It runs on all replicas;
// one write wins. After a failure the keeper tries again, and the Certificate reports the failure. While cert-manager
// keeps the authority, such as during an upgrade that enables it, the keeper writes nothing: it would create the Secret
// again, which belongs to no installation then, and overwrite the authority in turn with cainjector.
type keeper struct {
	Managed
	certificate *Certificate
	live        client.Client // without a cache
	changed     chan struct{}
}

// run keeps the certificate until the context ends.
func (k *keeper) run(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("certs").WithValues("secret", k.SecretKey())
	ctx = log.IntoContext(ctx, logger)
	limit := rate.NewLimiter(rate.Every(checkInterval), checksAtOnce)
	for delay := firstRetry; ; {
		if limit.Wait(ctx) != nil {
			return nil
		}
		next := k.CheckEvery
		switch err := k.keep(ctx); {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsConflict(err): // another replica was faster
			next = firstRetry
		case err != nil:
			logger.Error(err, "Cannot renew the webhooks' certificate; nodes are still held and released", "retry", delay)
			k.certificate.fail(err)
			next, delay = delay, min(2*delay, lastRetry)
		default:
			delay = firstRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		case <-k.changed:
		}
	}
}

// keep reconciles the certificate in the Secret, in this replica, and in the webhook configurations.
func (k *keeper) keep(ctx context.Context) error {
	configurations, unread := k.configurations(ctx)
	for _, o := range configurations {
		if _, ok := o.GetAnnotations()[injectAnnotation]; ok {
			return fmt.Errorf("%s %q has the annotation %s, so cert-manager keeps the certificate authority: run the operator "+
				"with --webhook-certs=files, or remove the annotation", o.GetKind(), o.GetName(), injectAnnotation)
		}
	}
	secret := &corev1.Secret{}
	switch err := k.live.Get(ctx, k.SecretKey(), secret); {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading Secret %s: %w", k.SecretKey(), err)
	case err != nil && unread != nil && len(configurations) == 0:
		return unread // cert-manager may keep the authority
	}
	data, err := k.renew(secret.Data, k.Clock.Now())
	if err != nil {
		return fmt.Errorf("creating a certificate for the webhooks: %w", err)
	}
	if !equality.Semantic.DeepEqual(data, secret.Data) {
		log.FromContext(ctx).Info("Writing a new certificate for the webhooks")
		if err := k.write(ctx, secret, data); err != nil {
			return err
		}
	}
	pair, err := tls.X509KeyPair(data[certFile], data[keyFile])
	if err != nil {
		return fmt.Errorf("the webhooks' certificate in Secret %s: %w", k.SecretKey(), err)
	}
	k.certificate.set(&pair)
	if err := errors.Join(unread, k.trust(ctx, configurations, data[caCertFile])); err != nil {
		return err
	}
	k.certificate.succeed()
	return nil
}

// renew returns the wanted data of the Secret: the current data while the certificate is valid for long enough.
func (k *keeper) renew(data map[string][]byte, now time.Time) (map[string][]byte, error) {
	host := k.Name + "." + k.Namespace
	issuer := &rotator.CertRotator{
		CAName: caName, CAOrganization: "nodegate", DNSName: host + ".svc", CertName: certFile, KeyName: keyFile,
		// localhost is for development: an API server on the same machine calls an operator outside the cluster.
		ExtraDNSNames: []string{host, host + ".svc.cluster.local", "localhost"},
		ExtKeyUsages:  &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	valid := func(cert, key, name string, usages *[]x509.ExtKeyUsage) bool {
		for _, at := range []time.Time{now, now.Add(k.RenewBefore)} { // a clock that was ahead may have dated it later
			if ok, err := rotator.ValidCert(data[caCertFile], data[cert], data[key], name, usages, at); !ok || err != nil {
				return false
			}
		}
		return true
	}
	begin := now.Add(-time.Hour) // clocks differ
	ca, err := authority(data)
	if err != nil || !valid(caCertFile, caKeyFile, caName, nil) { // of another kind, if another program has written it
		if ca, err = issuer.CreateCACert(begin, now.Add(k.CALifetime)); err != nil {
			return nil, err
		}
		data = map[string][]byte{caCertFile: ca.CertPEM, caKeyFile: ca.KeyPEM}
	}
	if valid(certFile, keyFile, issuer.DNSName, issuer.ExtKeyUsages) {
		return data, nil
	}
	cert, key, err := issuer.CreateCertPEM(ca, begin, now.Add(k.Lifetime))
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		caCertFile: data[caCertFile], caKeyFile: data[caKeyFile], certFile: cert, keyFile: key,
	}, nil
}

// authority returns the certificate authority in the data of the Secret.
func authority(data map[string][]byte) (*rotator.KeyPairArtifacts, error) {
	pair, err := tls.X509KeyPair(data[caCertFile], data[caKeyFile])
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key of the certificate authority is not an RSA key")
	}
	return &rotator.KeyPairArtifacts{Cert: pair.Leaf, Key: key, CertPEM: data[caCertFile], KeyPEM: data[caKeyFile]}, nil
}

// write writes the Secret by server-side apply, which also creates a Secret that was deleted. Unlike the permission to
// create Secrets, the permission to apply can be limited to one name.
func (k *keeper) write(ctx context.Context, found *corev1.Secret, data map[string][]byte) error {
	key := k.SecretKey()
	secret := applycorev1.Secret(key.Name, key.Namespace).WithType(corev1.SecretTypeOpaque).WithData(data)
	if found.UID != "" {
		secret.WithUID(found.UID).WithResourceVersion(found.ResourceVersion).WithType(found.Type)
	}
	if err := k.live.Apply(ctx, secret, client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing Secret %s: %w", key, err)
	}
	return nil
}

// configurations reads the webhook configurations that exist. The error is about those that cannot be read.
func (k *keeper) configurations(ctx context.Context) (found []*unstructured.Unstructured, _ error) {
	var errs []error
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind})
		switch err := k.live.Get(ctx, client.ObjectKey{Name: k.Name}, o); {
		case apierrors.IsNotFound(err):
			log.FromContext(ctx).V(2).Info("Webhook configuration not found", "kind", kind, "name", k.Name)
		case err != nil:
			errs = append(errs, fmt.Errorf("reading %s %q: %w", kind, k.Name, err))
		default:
			found = append(found, o)
		}
	}
	return found, errors.Join(errs...)
}

// trust writes the authority into webhook configurations.
func (k *keeper) trust(ctx context.Context, configurations []*unstructured.Unstructured, ca []byte) error {
	var errs []error
	for _, o := range configurations {
		if err := k.trustIn(ctx, o, ca); err != nil {
			errs = append(errs, fmt.Errorf("writing the certificate authority into %s %q: %w", o.GetKind(), o.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// trustIn writes the authority into one webhook configuration, unless it has it.
func (k *keeper) trustIn(ctx context.Context, o *unstructured.Unstructured, ca []byte) error {
	before := o.DeepCopy()
	hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, h := range hooks {
		if hook, ok := h.(map[string]any); ok {
			bundle := base64.StdEncoding.EncodeToString(ca)
			if err := unstructured.SetNestedField(hook, bundle, "clientConfig", "caBundle"); err != nil {
				return err
			}
		}
	}
	if len(hooks) > 0 {
		o.Object["webhooks"] = hooks
	}
	if k.Amend != nil {
		if err := k.Amend(o); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(before.Object, o.Object) {
		return nil
	}
	return k.live.Update(ctx, o, client.FieldOwner(fieldOwner))
}

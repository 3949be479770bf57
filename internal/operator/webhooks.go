// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"net"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/admission/certs"
	"github.com/nodegate/nodegate/internal/admission/node"
)

// WebhookOptions are the settings of the admission webhooks.
type WebhookOptions struct {
	// Host and Port are the address on which the webhooks are served.
	Host string
	Port int
	// Name is the name of the webhooks' Service and of their configurations.
	Name string
	// CertFiles reports whether another program, such as cert-manager, keeps tls.crt and tls.key in CertDir. Otherwise
	// the operator manages the certificate.
	CertFiles bool
	CertDir   string
	// GuardUsers are the users whose deletions of pods the eviction guard denies.
	GuardUsers []string
	// EndpointPolicy is the name of the admission policy that keeps endpoints.
	EndpointPolicy string
	// NodeFailurePolicy is the failure policy of the webhook for nodes. If it is empty, the installed one stays.
	NodeFailurePolicy admissionregistrationv1.FailurePolicyType
}

// addWebhooks adds the webhook server. /readyz waits for its certificate.
func (r *Replica) addWebhooks(ctx context.Context, mgr manager.Manager, o *Options) error {
	if o.Webhooks == nil {
		return nil
	}
	certificate, err := o.certificate(ctx, mgr)
	if err != nil {
		return err
	}
	server := &admission.Server{
		Address:     net.JoinHostPort(o.Webhooks.Host, strconv.Itoa(o.Webhooks.Port)),
		Certificate: certificate.Get, Handlers: r.Webhooks,
	}
	if err := mgr.Add(server); err != nil {
		return fmt.Errorf("adding the webhook server: %w", err)
	}
	return addReadyzChecks(mgr, map[string]healthz.Checker{
		"webhook-certificate": certificate.Ready, "webhook-server": server.Ready,
	})
}

// addNodeAdmission adds the detection of the engine that taints nodes at admission.
func addNodeAdmission(ctx context.Context, mgr manager.Manager, o *Options) (*node.Engine, error) {
	engine := node.NewEngine(o.NodeAdmission, o.Webhooks != nil, o.NodePolicy)
	if err := engine.SetupWithManager(ctx, mgr); err != nil {
		return nil, fmt.Errorf("--node-admission: %w", err)
	}
	return engine, addReadyzChecks(mgr, map[string]healthz.Checker{"node-admission": engine.Ready})
}

func (o *Options) certificate(ctx context.Context, mgr manager.Manager) (*certs.Certificate, error) {
	if o.Webhooks.CertFiles {
		return certs.WebhooksFromFiles(mgr, o.Clock, o.Webhooks.CertDir)
	}
	managed := certs.Managed{Namespace: o.Namespace, Name: o.Webhooks.Name, Clock: o.Clock}
	if policy := o.Webhooks.NodeFailurePolicy; policy != "" {
		managed.Amend = func(u *unstructured.Unstructured) error { return node.SetFailurePolicy(u, policy) }
	}
	return managed.Add(ctx, mgr)
}

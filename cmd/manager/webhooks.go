// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/nodegate/nodegate/internal/admission/node"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/operator"
)

// Where the webhooks' certificate comes from.
const (
	certsSelfManaged = "self-managed"
	certsFiles       = "files"
)

type webhookOptions struct {
	recordGuard     bool
	guardNamespace  string
	enabled         bool
	address         string
	certs, certDir  string
	name, namespace string

	nodeAdmission, nodePolicy string
	nodeFailurePolicy         string

	guardUsers     []string
	endpointPolicy string
}

func (o *webhookOptions) bind(fs *pflag.FlagSet) {
	fs.BoolVar(&o.enabled, "enable-webhook", false, "Serve admission webhooks on every replica.")
	fs.StringVar(&o.address, "webhook-bind-address", ":9443", "Address of the webhooks.")
	fs.StringVar(&o.certs, "webhook-certs", certsSelfManaged,
		"Source of the webhooks' certificate. self-managed: the operator creates and renews it, and stores it in the "+
			"Secret <--webhook-name>-cert. files: the operator reads it from --webhook-cert-dir, for example from a Secret of "+
			"cert-manager that is mounted there.")
	fs.StringVar(&o.certDir, "webhook-cert-dir", "",
		"Directory with tls.crt and tls.key for --webhook-certs=files. The operator reloads them when they change.")
	fs.StringVar(&o.name, "webhook-name", "nodegate-webhook", "Name of the webhooks' Service and of the webhook "+
		"configurations.")
	fs.StringVar(&o.namespace, "webhook-namespace", "", "Namespace of the webhooks' Service. Default: the operator's "+
		"namespace, or nodegate-system outside of a cluster.")
	fs.StringVar(&o.nodeAdmission, "node-admission", string(node.ModeAuto),
		"What taints a node in the request that makes it match a rule. policy: the MutatingAdmissionPolicy "+
			"--node-admission-policy-name, which must be installed. webhook: the webhook, even if the policy is installed. "+
			"auto: the policy if it is installed, otherwise the webhook if --enable-webhook is set. off: not the webhook. The "+
			"API server runs an installed policy in any case.")
	fs.StringVar(&o.nodeFailurePolicy, "node-admission-failure-policy", "",
		"failurePolicy that the operator writes into the configuration of the webhook for new nodes. If no replica answers "+
			"the webhook, Ignore lets a node join, and Fail refuses it unless it has the label "+
			"node-restriction.kubernetes.io/skip-admission. Default: the operator does not change failurePolicy. It does not "+
			"apply to the MutatingAdmissionPolicy.")
	fs.StringSliceVar(&o.guardUsers, "eviction-guard-users", guard.DefaultUsers(),
		"Exact names of the users whose deletions of pods an eviction guard denies. The webhook's match condition "+
			"guarded-users must have the same names. Kubelets and controllers that must be able to delete pods are not allowed.")
	fs.StringVar(&o.endpointPolicy, "endpoint-policy-name", "nodegate-endpoints",
		"Name of the MutatingAdmissionPolicy that keeps pods ready for rules with evictionGuard.endpoints, and of its "+
			"binding.")
	fs.BoolVar(&o.recordGuard, "record-guard", true, "Whether the admission policy is installed that lets only the "+
		"operator write its records on nodes. If false, any account may have written a record: if only the record of a "+
		"deleted rule names a taint, the operator reports the taint and does not remove it.")
	fs.StringVar(&o.guardNamespace, "record-guard-namespace", "", "Namespace of the operator's account in that admission "+
		"policy. If the operator runs in another namespace, it exits, because the policy would reject its records. "+
		"Default: not checked.")
	fs.StringVar(&o.nodePolicy, "node-admission-policy-name", "nodegate-node-admission",
		"Name of the MutatingAdmissionPolicy for nodes, and of its binding.")
}

// checkNamespace returns an error if the record guard is for an operator in another namespace than own, which is empty
// outside of a cluster. Such a guard would reject all records, and new nodes would stay held.
func (o *webhookOptions) checkNamespace(own string) error {
	if want := o.guardNamespace; o.recordGuard && own != "" && want != "" && own != want {
		return fmt.Errorf("--record-guard-namespace: the installed admission policies are for an operator in the namespace "+
			"%s, but this one runs in %s: to change the namespace, replace each %[1]s in what kustomize renders, or install "+
			"with Helm: see docs/install.md", want, own)
	}
	return nil
}

// settings returns the settings of the webhooks, or nil if none are served. The error says which flags are wrong.
func (o *webhookOptions) settings() (*operator.WebhookOptions, error) {
	var errs []error
	switch node.Mode(o.nodeAdmission) {
	case node.ModeAuto, node.ModePolicy, node.ModeOff:
	case node.ModeWebhook:
		if !o.enabled {
			errs = append(errs, errors.New("--node-admission=webhook: requires --enable-webhook"))
		}
	default:
		errs = append(errs, fmt.Errorf("--node-admission: must be auto, policy, webhook or off, not %q", o.nodeAdmission))
	}
	switch o.nodeFailurePolicy {
	case "":
	case string(admissionregistrationv1.Ignore), string(admissionregistrationv1.Fail):
		if !o.enabled || o.certs != certsSelfManaged {
			errs = append(errs, errors.New("--node-admission-failure-policy: requires --enable-webhook and "+
				"--webhook-certs=self-managed; otherwise, set failurePolicy in the webhook's configuration"))
		}
	default:
		errs = append(errs, fmt.Errorf("--node-admission-failure-policy: must be Ignore or Fail, not %q",
			o.nodeFailurePolicy))
	}
	switch o.certs {
	case certsSelfManaged:
	case certsFiles:
		if o.enabled && o.certDir == "" {
			errs = append(errs, errors.New("--webhook-cert-dir: is required with --webhook-certs=files"))
		}
	default:
		errs = append(errs, fmt.Errorf("--webhook-certs: must be %s or %s, not %q", certsSelfManaged, certsFiles, o.certs))
	}
	if !o.enabled {
		return nil, errors.Join(errs...)
	}
	host, port, err := o.hostPort()
	if err != nil {
		errs = append(errs, fmt.Errorf("--webhook-bind-address: %w", err))
	}
	if err := guard.ValidateUsers(o.guardUsers); err != nil {
		errs = append(errs, fmt.Errorf("--eviction-guard-users: %w", err))
	}
	if o.name == "" {
		errs = append(errs, errors.New("--webhook-name: must not be empty"))
	}
	return &operator.WebhookOptions{
		Host: host, Port: port, Name: o.name, CertDir: o.certDir, CertFiles: o.certs == certsFiles,
		GuardUsers: o.guardUsers, EndpointPolicy: o.endpointPolicy,
		NodeFailurePolicy: admissionregistrationv1.FailurePolicyType(o.nodeFailurePolicy),
	}, errors.Join(errs...)
}

func (o *webhookOptions) hostPort() (string, int, error) {
	host, port, err := net.SplitHostPort(o.address)
	if err != nil {
		return "", 0, fmt.Errorf("must be host:port or :port: %w", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return "", 0, fmt.Errorf("must end with a port from 1 to 65535, not %q", port)
	}
	return host, n, nil
}

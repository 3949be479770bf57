// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

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
	enabled         bool
	address         string
	certs, certDir  string
	name, namespace string

	nodeAdmission, nodePolicy string
	nodeFailurePolicy         string

	guardUsers []string
}

func (o *webhookOptions) bind(fs *pflag.FlagSet) {
	fs.BoolVar(&o.enabled, "enable-webhook", false, "Serve admission webhooks, on every replica. Without it nothing of "+
		"them runs.")
	fs.StringVar(&o.address, "webhook-bind-address", ":9443", "Address that webhooks are served on.")
	fs.StringVar(&o.certs, "webhook-certs", certsSelfManaged,
		"Where the webhooks' certificate comes from. self-managed: the operator makes and renews it, and keeps it in the "+
			"Secret <--webhook-name>-cert. "+
			"files: it is read from --webhook-cert-dir, where for example cert-manager keeps it.")
	fs.StringVar(&o.certDir, "webhook-cert-dir", "",
		"Directory of tls.crt and tls.key with --webhook-certs=files, where they are read again when they change.")
	fs.StringVar(&o.name, "webhook-name", "nodegate-webhook", "Name of the webhooks' Service and of their configurations.")
	fs.StringVar(&o.namespace, "webhook-namespace", "", "Namespace of the webhooks' Service. By default the one that "+
		"the operator runs in; outside of a cluster nodegate-system.")
	fs.StringVar(&o.nodeAdmission, "node-admission", string(node.ModeAuto),
		"What has nodes born with the taints of the rules that they match. policy: the MutatingAdmissionPolicy "+
			"--node-admission-policy-name, "+
			"which must be installed. webhook: the webhook, also where that policy is installed. auto: the policy where it "+
			"is installed, else the webhook, if it is served. "+
			"off: not the webhook; a policy that is installed goes on by itself.")
	fs.StringVar(&o.nodeFailurePolicy, "node-admission-failure-policy", "",
		"What becomes of a node that joins while no replica answers the webhook: Ignore lets it join, Fail refuses it, "+
			"unless it has the label "+
			"node-restriction.kubernetes.io/skip-admission. The operator writes it into the webhook's configuration; by "+
			"default that stays as it is installed. "+
			"The policy has its own in its manifest.")
	fs.StringSliceVar(&o.guardUsers, "eviction-guard-users", guard.DefaultUsers(),
		"Users whose deletions of pods an eviction guard denies, by their exact names. The match condition guarded-users of "+
			"the webhook must name the same users. Kubelets and controllers that must be able to delete pods are refused.")
	fs.BoolVar(&o.recordGuard, "record-guard", true, "The admission policy is installed that lets only the operator "+
		"write its records on nodes. Without it the operator does not remove taints that only a record of a deleted "+
		"rule names: "+
		"it reports them.")
	fs.StringVar(&o.nodePolicy, "node-admission-policy-name", "nodegate-node-admission",
		"Name of the MutatingAdmissionPolicy for nodes, and of its binding.")
}

func (o *webhookOptions) validate() []error {
	var errs []error
	switch node.Mode(o.nodeAdmission) {
	case node.ModeAuto, node.ModePolicy, node.ModeOff:
	case node.ModeWebhook:
		if !o.enabled {
			errs = append(errs, errors.New("--node-admission=webhook: needs --enable-webhook"))
		}
	default:
		errs = append(errs, fmt.Errorf("--node-admission: must be auto, policy, webhook or off, not %q", o.nodeAdmission))
	}
	switch o.nodeFailurePolicy {
	case "":
	case string(admissionregistrationv1.Ignore), string(admissionregistrationv1.Fail):
		if !o.enabled || o.certs != certsSelfManaged {
			errs = append(errs, errors.New("--node-admission-failure-policy: needs --enable-webhook and "+
				"--webhook-certs=self-managed; else set failurePolicy in the webhook's configuration"))
		}
	default:
		errs = append(errs, fmt.Errorf("--node-admission-failure-policy: must be Ignore or Fail, not %q",
			o.nodeFailurePolicy))
	}
	if !o.enabled {
		return errs
	}
	if _, _, err := o.hostPort(); err != nil {
		errs = append(errs, fmt.Errorf("--webhook-bind-address: %w", err))
	}
	switch o.certs {
	case certsSelfManaged:
	case certsFiles:
		if o.certDir == "" {
			errs = append(errs, errors.New("--webhook-cert-dir: is required with --webhook-certs=files"))
		}
	default:
		errs = append(errs, fmt.Errorf("--webhook-certs: must be %s or %s, not %q", certsSelfManaged, certsFiles, o.certs))
	}
	if err := guard.ValidateUsers(o.guardUsers); err != nil {
		errs = append(errs, fmt.Errorf("--eviction-guard-users: %w", err))
	}
	if o.name == "" {
		errs = append(errs, errors.New("--webhook-name: must not be empty"))
	}
	return errs
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

// namespaceFile tells a pod which namespace it is in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func (o *webhookOptions) namespaceOrDefault() string {
	if o.namespace != "" {
		return o.namespace
	}
	if raw, err := os.ReadFile(namespaceFile); err == nil && len(raw) > 0 {
		return strings.TrimSpace(string(raw))
	}
	return "nodegate-system"
}

// settings are the settings of the webhooks; nil if none are served.
func (o *webhookOptions) settings() (*operator.WebhookOptions, error) {
	if !o.enabled {
		return nil, nil
	}
	host, port, err := o.hostPort()
	if err != nil {
		return nil, fmt.Errorf("--webhook-bind-address: %w", err)
	}
	return &operator.WebhookOptions{
		Host: host, Port: port, Name: o.name, CertDir: o.certDir, CertFiles: o.certs == certsFiles,
		GuardUsers: o.guardUsers, NodeFailurePolicy: admissionregistrationv1.FailurePolicyType(o.nodeFailurePolicy),
	}, nil
}

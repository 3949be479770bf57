// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

const (
	// Namespace is the operator's namespace in config/default.
	Namespace = "nodegate-system"
	// OperatorUser is the operator's user name in config/default.
	OperatorUser = "system:serviceaccount:" + Namespace + ":nodegate-manager"
)

// OperatorOptions say how an operator runs. The zero value is one replica without webhooks.
type OperatorOptions struct {
	// Name names the process. Empty means "nodegate".
	Name string
	// Binary is the path of another operator than this checkout's.
	Binary string
	// Webhooks serves the webhooks and registers them with the API server.
	Webhooks bool
	// Policies installs the admission policies.
	Policies bool
	// Elect takes part in leader election.
	Elect bool
	// Rendered says that the cluster has all that an installation has besides the Deployment.
	Rendered bool
	// Args are more arguments.
	Args []string
}

// Operator is a running operator.
type Operator struct {
	*Component
	// MetricsURL serves its metrics without authentication, ReadyURL says whether it is ready.
	MetricsURL, ReadyURL string
}

// StartOperator starts the operator's binary with the permissions that an installation gives it, and no others, and
// waits until it is ready.
func (c *Cluster) StartOperator(ctx context.Context, o OperatorOptions) (*Operator, error) {
	if o.Name == "" {
		o.Name = "nodegate"
	}
	binary, err := o.Binary, error(nil)
	if binary == "" {
		binary, err = c.Binary(ctx, "manager")
	}
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.KubeconfigFor(OperatorUser, "system:serviceaccounts", "system:serviceaccounts:"+Namespace)
	if err != nil {
		return nil, err
	}
	var addresses [3]string
	for i := range addresses {
		if addresses[i], err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	metrics, probes, webhooks := addresses[0], addresses[1], addresses[2]
	if !o.Rendered {
		if err := c.installOperator(ctx, o, webhooks); err != nil {
			return nil, fmt.Errorf("installing the operator: %w", err)
		}
	}
	args := []string{
		"--kubeconfig=" + kubeconfig, "--agent-config=" + Namespace + "/nodegate-agent-config",
		"--leader-elect=" + strconv.FormatBool(o.Elect), "--leader-election-namespace=" + Namespace,
		"--metrics-bind-address=" + metrics, "--metrics-secure=false", "--health-probe-bind-address=" + probes,
	}
	if o.Webhooks {
		args = append(args, "--enable-webhook", "--webhook-bind-address="+webhooks, "--webhook-namespace="+Namespace)
	}
	op := &Operator{MetricsURL: "http://" + metrics + "/metrics", ReadyURL: "http://" + probes + "/readyz"}
	op.Component, err = c.Run(ctx, Process{
		Name: o.Name, Path: binary, Args: append(args, o.Args...),
		Ready: Probe(nil, op.ReadyURL),
	})
	return op, err
}

// installOperator applies what an installation has besides the Deployment.
func (c *Cluster) installOperator(ctx context.Context, o OperatorOptions, webhooks string) error {
	files := []string{
		"manager/namespace.yaml", "rbac/service_account.yaml", "rbac/role.yaml", "rbac/role_binding.yaml",
	}
	if o.Webhooks {
		files = append(files, WebhookAccess...)
	}
	if o.Policies {
		files = append(files, NodeAdmissionPolicy, RecordGuard)
	}
	if _, err := c.ApplyConfig(ctx, nil, files...); err != nil || !o.Webhooks {
		return err
	}
	_, port, err := net.SplitHostPort(webhooks)
	if err != nil {
		return err
	}
	_, err = c.ApplyConfig(ctx, Local("https://localhost:"+port, nil), MutatingWebhooks, ValidatingWebhooks)
	return err
}

// Metrics returns the operator's metrics.
func (o *Operator) Metrics(ctx context.Context) (string, error) {
	_, body, err := Get(ctx, o.MetricsURL)
	return body, err
}

// Metric returns the value of one line of metrics, 0 if there is none.
func Metric(metrics, name string) (float64, error) {
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, nil
}

// Get returns the status and the body of a URL.
func Get(ctx context.Context, url string) (status int, body string, err error) {
	return GetWith(ctx, http.DefaultClient, url, "")
}

// GetWith is Get by a client, and with a bearer token unless that is empty.
func GetWith(ctx context.Context, by *http.Client, url, bearer string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := by.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// StartWithOperator starts a cluster with the CRD and an operator.
func StartWithOperator(ctx context.Context, o Options, operator OperatorOptions) (*Cluster, error) {
	o.CRD = true
	c, err := Start(ctx, o)
	if err != nil {
		return nil, err
	}
	if c.Operator, err = c.StartOperator(ctx, operator); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

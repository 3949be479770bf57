// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/test/cluster"
)

const (
	namespace      = "nodegate-system"
	serviceAccount = "nodegate-manager"
	// operator is the operator's user name.
	operator = "system:serviceaccount:" + namespace + ":" + serviceAccount
)

// auditPolicy records the requests of the operator, and no others.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ["` + operator + `"]}
- {level: None}
`

var (
	// root is the checkout.
	root = filepath.Join("..", "..", "..")
	// control is the control plane of all tests.
	control *cluster.Cluster
	config  *rest.Config
	// kube may do everything.
	kube client.Client
	// installed is what config/default renders. It is applied before the tests run.
	installed []object
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	logf.SetLogger(klog.Background())
	control, err = cluster.Start(ctx, cluster.Options{AuditPolicy: auditPolicy})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, control.Stop()) }()
	config = control.Config()
	config.WarningHandler = rest.NoWarnings{}
	if kube, err = clientFor(config); err != nil {
		return 0, err
	}
	if installed, err = kustomize(ctx, "config/default"); err != nil {
		return 0, err
	}
	if err := apply(ctx, installed); err != nil {
		return 0, fmt.Errorf("applying config/default: %w", err)
	}
	return m.Run(), nil
}

// create creates an object, which is deleted when the test ends.
func create(t *testing.T, o client.Object) {
	t.Helper()
	cluster.Must(t, kube.Create(t.Context(), o))
	t.Cleanup(func() { _ = kube.Delete(context.Background(), o, client.GracePeriodSeconds(0)) })
}

// clientFor returns a client that sends objects with strict field validation.
func clientFor(config *rest.Config) (client.Client, error) {
	c, err := client.New(config, client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		return nil, err
	}
	return client.WithFieldValidation(c, "Strict"), nil
}

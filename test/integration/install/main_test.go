// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	namespace      = "nodegate-system"
	serviceAccount = "nodegate-manager"
	// operator is who the operator is to the API server.
	operator = "system:serviceaccount:" + namespace + ":" + serviceAccount
)

// auditPolicy records what the operator asks for, and nothing else.
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
	// scratch is a directory for the files of this run.
	scratch string
	env     *envtest.Environment
	config  *rest.Config
	// kube may do everything, and sends what it is given with strict field validation.
	kube client.Client
	// installed is what config/default renders; it is there, as far as an API server alone can have it.
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
	if scratch, err = os.MkdirTemp("", "nodegate-install-"); err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		if assets, err = cluster.Assets(ctx, os.Stderr); err != nil {
			return 0, err
		}
	}
	policy := filepath.Join(scratch, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return 0, err
	}
	env = &envtest.Environment{BinaryAssetsDirectory: assets}
	env.ControlPlaneStartTimeout, env.ControlPlaneStopTimeout = cluster.Limit, cluster.Limit
	env.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).Set("audit-log-path", auditLog()).Set("audit-log-mode", "blocking")
	defer func() {
		if stopErr := env.Stop(); err == nil && stopErr != nil {
			err = fmt.Errorf("stopping the API server: %w", stopErr)
		}
	}()
	if config, err = env.Start(); err != nil {
		return 0, fmt.Errorf("starting an API server: %w", err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return 0, fmt.Errorf("making a client: %w", err)
	}
	kube = client.WithFieldValidation(c, "Strict")
	if installed, err = kustomize(ctx, "config/default"); err != nil {
		return 0, err
	}
	if err := apply(ctx, installed, "kustomize"); err != nil {
		return 0, fmt.Errorf("applying config/default: %w", err)
	}
	return m.Run(), nil
}

func auditLog() string { return filepath.Join(scratch, "audit.log") }

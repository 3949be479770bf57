// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/apiserver"
)

// crdDir is where the generated CustomResourceDefinition is.
var crdDir = filepath.Join("..", "..", "..", "config", "crd", "bases")

var (
	// assets is the directory of the control plane's binaries, kubectl among them.
	assets string
	config *rest.Config
	// kube sends what it is given with strict field validation.
	kube client.Client
	// user is who the tests are, with files for kubectl.
	user *envtest.AuthenticatedUser
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
	logf.SetLogger(klog.Background())
	if assets = os.Getenv("KUBEBUILDER_ASSETS"); assets == "" {
		if assets, err = cluster.Assets(context.Background(), os.Stderr); err != nil {
			return 0, err
		}
	}
	env := &envtest.Environment{BinaryAssetsDirectory: assets, CRDDirectoryPaths: []string{crdDir}, ErrorIfCRDPathMissing: true}
	apiserver.Patient(env)
	defer func() {
		if stopErr := env.Stop(); err == nil && stopErr != nil {
			err = fmt.Errorf("stopping the API server: %w", stopErr)
		}
	}()
	if config, err = env.Start(); err != nil {
		return 0, fmt.Errorf("starting an API server with the CustomResourceDefinition: %w", err)
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
	if user, err = env.AddUser(envtest.User{Name: "author", Groups: []string{"system:masters"}}, config); err != nil {
		return 0, fmt.Errorf("adding a user: %w", err)
	}
	return m.Run(), nil
}

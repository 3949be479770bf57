// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver starts a real etcd and API server with this project's CRD for the suites of the controllers. It is
// imported by tests only.
package apiserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Server is a running API server.
type Server struct {
	// Config is an administrator's.
	Config *rest.Config
	// Client reads and writes with it, past any cache.
	Client client.WithWatch

	env *envtest.Environment
}

// Option changes an API server before it starts.
type Option func(*envtest.Environment)

// WithKubelets lets kubelets in as in a cluster: by the node authorizer, held to their own node by NodeRestriction.
func WithKubelets(env *envtest.Environment) {
	env.ControlPlane.GetAPIServer().Configure().
		Set("authorization-mode", "Node,RBAC").Set("enable-admission-plugins", "NodeRestriction")
}

// patience is for a busy machine: what is well ends as soon as ever.
const patience = 2 * time.Minute

// Patient gives an environment more time than the usual ten or twenty seconds.
func Patient(env *envtest.Environment) {
	env.ControlPlaneStartTimeout, env.ControlPlaneStopTimeout, env.CRDInstallOptions.MaxTime = patience, patience, patience
}

// ForTest starts an API server as Start does, and stops it when the test ends.
func ForTest(t testing.TB, options ...Option) *Server {
	t.Helper()
	server, err := Start(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// Start starts an API server with the CRD installed. Stop it.
func Start(options ...Option) (*Server, error) {
	assets, err := assetsDir()
	if err != nil {
		return nil, err
	}
	s := &Server{env: &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{filepath.Join(root(), "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}}
	Patient(s.env)
	for _, o := range options {
		o(s.env)
	}
	if s.Config, err = s.env.Start(); err != nil {
		return nil, fmt.Errorf("starting the API server: %w", err)
	}
	s.Config.QPS = -1
	if s.Client, err = client.NewWithWatch(s.Config, client.Options{Scheme: Scheme()}); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return s, nil
}

// As is a client of somebody: of the kubelet of node x, for example, with "system:node:x" and "system:nodes".
func (s *Server) As(user string, groups ...string) (client.Client, error) {
	u, err := s.env.AddUser(envtest.User{Name: user, Groups: groups}, s.Config)
	if err != nil {
		return nil, fmt.Errorf("adding user %q: %w", user, err)
	}
	return client.New(u.Config(), client.Options{Scheme: Scheme()})
}

// Stop ends it.
func (s *Server) Stop() error {
	if err := s.env.Stop(); err != nil {
		return fmt.Errorf("stopping the API server: %w", err)
	}
	return nil
}

// Scheme knows all types that the suites use.
func Scheme() *kruntime.Scheme {
	scheme := kruntime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// assetsDir is where the binaries are: KUBEBUILDER_ASSETS, as make test sets it, or what hack/assets.sh makes sure of.
func assetsDir() (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir, nil
	}
	cmd := exec.Command(filepath.Join(root(), "hack", "assets.sh"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("making sure of the API server's binaries: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], nil
}

// root is the top of the checkout.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

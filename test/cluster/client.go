// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
)

// ForTest starts a cluster that ends with the test.
func ForTest(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := Start(context.Background(), o)
	Must(t, err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Scheme has all types that the tests use.
func Scheme() *kruntime.Scheme {
	scheme := kruntime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(admissionv1alpha1.AddToScheme(scheme))
	utilruntime.Must(endpointsv1alpha1.AddToScheme(scheme))
	return scheme
}

// As returns a client of a user, for whom ConfigFor makes the credentials.
func (c *Cluster) As(user string, groups ...string) (client.WithWatch, error) {
	config, err := c.ConfigFor(user, groups...)
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: Scheme()})
}

// connect makes the administrator's clients.
func (c *Cluster) connect() (err error) {
	if c.Client, err = client.NewWithWatch(c.admin, client.Options{Scheme: Scheme()}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if c.Clientset, err = kubernetes.NewForConfig(c.admin); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// installCRD creates the CustomResourceDefinitions and waits until rules are served.
func (c *Cluster) installCRD(ctx context.Context) error {
	rules, err := crd.Load()
	if err != nil {
		return err
	}
	admissionRules, err := crd.LoadAdmissionRules()
	if err != nil {
		return err
	}
	if err := errors.Join(c.InstallCRD(rules), c.InstallCRD(admissionRules)); err != nil {
		return err
	}
	return Poll(ctx, Limit, func() error { return c.Client.List(ctx, &v1alpha1.NodeReadinessRuleList{}) })
}

// InstallCRD creates or replaces a CustomResourceDefinition, and waits until its resource is discovered.
func (c *Cluster) InstallCRD(want *apiextensionsv1.CustomResourceDefinition) error {
	return c.installCRDs(envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{want.DeepCopy()}})
}

func (c *Cluster) installCRDs(o envtest.CRDInstallOptions) error {
	o.MaxTime, o.ErrorIfPathMissing = Limit, true
	_, err := envtest.InstallCRDs(c.admin, o)
	return err
}

// InstallPinnedCRD does the same with a file of a module that hack/tools/crds pins.
func (c *Cluster) InstallPinnedCRD(ctx context.Context, module, file string) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = filepath.Join(Root(), "hack", "tools", "crds")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("downloading %s: %w\n%s", module, err, out)
	}
	source := struct{ Dir string }{}
	if err := json.Unmarshal(out, &source); err != nil {
		return err
	}
	return c.installCRDs(envtest.CRDInstallOptions{Paths: []string{filepath.Join(source.Dir, file)}})
}

// Root returns the directory of the checkout: the nearest one above the working directory that has a go.mod. Tests,
// demo and benches all run below it.
func Root() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		err = errors.New("no go.mod in the working directory or above")
	}
	panic(err)
}

// Example is the path of a file below examples.
func Example(elements ...string) string {
	return filepath.Join(append([]string{Root(), "examples"}, elements...)...)
}

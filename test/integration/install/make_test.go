// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

// checkout is a copy of what make deploys from, so that dist/ of this one is left alone, and a cluster that it works on.
type checkout struct {
	dir     string
	cluster *cluster.Cluster // nil for none
}

func newCheckout(t *testing.T, cluster *cluster.Cluster) *checkout {
	t.Helper()
	c := &checkout{dir: t.TempDir(), cluster: cluster}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "Makefile"), makefile, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(c.dir, "config"), os.DirFS(filepath.Join(root, "config"))); err != nil {
		t.Fatal(err)
	}
	return c
}

// make runs make. Its tools are the pinned ones; Go runs in the checkout that this is a copy of.
func (c *checkout) make(ctx context.Context, args ...string) (string, error) {
	if _, err := tool(ctx, "kustomize", "version"); err != nil { // looks it up
		return "", err
	}
	source, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	args = append(args, "KUSTOMIZE="+executables["kustomize"], "GO=CGO_ENABLED=0 go -C "+source)
	cmd := exec.CommandContext(ctx, "make", args...)
	cmd.Dir = c.dir
	cmd.Env = os.Environ()
	if c.cluster != nil {
		cmd.Args = append(cmd.Args, "KUBECTL="+filepath.Join(c.cluster.Assets(), "kubectl"))
		cmd.Env = append(cmd.Env, "KUBECONFIG="+c.cluster.Kubeconfig())
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

func (c *checkout) mustMake(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.make(t.Context(), args...)
	if err != nil {
		t.Fatalf("make %v: %v\n%s", args, err, out)
	}
	return out
}

// installer is what is in dist/install.yaml.
func (c *checkout) installer(t *testing.T) []object {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, "dist", "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// images takes the images out of the pods, and returns them.
func images(t *testing.T, objects []object) (out []string) {
	t.Helper()
	path := []string{"spec", "template", "spec", "containers"}
	for _, o := range objects {
		containers, ok, _ := unstructured.NestedSlice(o.Object, path...)
		if !ok {
			continue
		}
		for _, c := range containers {
			container, ok := c.(map[string]any)
			if !ok {
				t.Fatalf("%s: a container is no object", o.GetName())
			}
			image, _, _ := unstructured.NestedString(container, "image")
			out = append(out, image)
			delete(container, "image")
		}
		if err := unstructured.SetNestedSlice(o.Object, containers, path...); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestBuildInstaller: one file has all that kustomize renders, with the image that was asked for, and the checkout is as it was.
func TestBuildInstaller(t *testing.T) {
	c := newCheckout(t, nil)
	const image = "registry.example.com/team/nodegate:v9"
	for _, from := range []string{"config/default", "config/with-agent", "config/openshift"} {
		c.mustMake(t, "build-installer", "CONFIG="+from, "IMG="+image)
		got := c.installer(t)
		want, err := kustomize(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range images(t, got) {
			if i != image {
				t.Errorf("%s: the image is %s", from, i)
			}
		}
		if len(images(t, want)) == 0 {
			t.Errorf("%s has no image", from)
		}
		if diff := cmp.Diff(byName(want), byName(got)); diff != "" {
			t.Errorf("%s (-rendered +in the file):\n%s", from, diff)
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d objects, not %d", from, len(got), len(want))
		}
	}
	for _, dir := range []string{"config/default", "config/manager"} {
		before, err := os.ReadFile(filepath.Join(root, dir, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(filepath.Join(c.dir, dir, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(before), string(after)); diff != "" {
			t.Errorf("%s was changed:\n%s", dir, diff)
		}
	}
	if out, err := c.make(t.Context(), "build-installer", "CONFIG=config/nothing"); err == nil {
		t.Errorf("an installer of nothing was built:\n%s", out)
	}
}

// gone says whether the cluster does not have the object; of one that it has none of the kind, either.
func gone(ctx context.Context, c client.Client, o object) (bool, error) {
	err := c.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy())
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return true, nil
	}
	return false, err
}

// TestMakeDeploy: install, uninstall, deploy and undeploy do what they say on a cluster whose controllers run: what is
// deployed is all there, and all gone afterwards, the rules before the definition.
func TestMakeDeploy(t *testing.T) {
	cluster, err := cluster.Start(t.Context(), cluster.Options{
		Assets: os.Getenv("KUBEBUILDER_ASSETS"), ControllerManager: true, Log: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	there, err := client.New(cluster.Config(), client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	c := newCheckout(t, cluster)
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	definition.SetName("nodereadinessrules.readiness.node.x-k8s.io")
	check := func(after string, want bool, objects ...object) {
		t.Helper()
		for _, o := range objects {
			if got, err := gone(t.Context(), there, o); err != nil || got != want {
				t.Errorf("after %s %s %s is gone: %t, %v", after, o.GetKind(), o.GetName(), got, err)
			}
		}
	}

	c.mustMake(t, "install")
	check("install", false, definition)
	samples, err := kustomize(t.Context(), "config/samples")
	if err != nil {
		t.Fatal(err)
	}
	if err := there.Create(t.Context(), samples[0].DeepCopy()); err != nil {
		t.Fatalf("a rule after install: %v", err)
	}
	out := c.mustMake(t, "uninstall")
	check("uninstall", true, definition, samples[0])
	rule, crd := strings.Index(out, `"`+samples[0].GetName()+`" deleted`), strings.Index(out, `"`+definition.GetName()+`" deleted`)
	if rule < 0 || crd < rule {
		t.Errorf("the rules do not go first, while an operator could clean up:\n%s", out)
	}
	if out, err := c.make(t.Context(), "uninstall"); err == nil {
		t.Errorf("what is gone is uninstalled again:\n%s", out)
	}
	c.mustMake(t, "uninstall", "ignore-not-found=true")

	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Namespace: "default"}}
	if err := there.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	c.mustMake(t, "deploy", "CONFIG=config/with-agent", "IMG=registry.example.com/nodegate:v9")
	deployed := c.installer(t)
	check("deploy", false, deployed...)
	c.mustMake(t, "deploy", "CONFIG=config/with-agent", "IMG=registry.example.com/nodegate:v10") // again, over what is there
	c.mustMake(t, "undeploy", "CONFIG=config/with-agent")
	check("undeploy", true, deployed...)
	if err := there.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Errorf("undeploy has taken what is not ours: %v", err)
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/cluster"
)

// checkout is a copy of the files that make deploys from, and the cluster to deploy to.
type checkout struct {
	dir     string
	cluster *cluster.Cluster // nil for none
}

func newCheckout(t *testing.T, on *cluster.Cluster) *checkout {
	t.Helper()
	c := &checkout{dir: t.TempDir(), cluster: on}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	cluster.Must(t, err)
	cluster.Must(t, os.WriteFile(filepath.Join(c.dir, "Makefile"), makefile, 0o600))
	cluster.Must(t, os.CopyFS(filepath.Join(c.dir, "config"), os.DirFS(filepath.Join(root, "config"))))
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
		// All commands act in the cluster of kubectl's options, and not in the current one.
		cmd.Args = append(cmd.Args, "KUBECTL="+filepath.Join(c.cluster.Assets(), "kubectl")+" --kubeconfig="+
			c.cluster.Kubeconfig())
		cmd.Env = append(cmd.Env, "KUBECONFIG="+filepath.Join(c.dir, "another-cluster"))
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
	cluster.Must(t, err)
	objects, err := cluster.ParseObjects(raw)
	cluster.Must(t, err)
	return objects
}

// images removes the images from the pod templates, and returns them.
func images(objects []object) (out []string) {
	for _, o := range objects {
		containers, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec", "containers")
		list, _ := containers.([]any)
		for _, c := range list {
			if container, ok := c.(map[string]any); ok {
				out = append(out, fmt.Sprint(container["image"]))
				delete(container, "image")
			}
		}
	}
	return out
}

// TestBuildInstaller: dist/install.yaml has all objects that kustomize renders, with the image IMG. The files of config
// do not change.
func TestBuildInstaller(t *testing.T) {
	c := newCheckout(t, nil)
	const image = "registry.example.com/team/nodegate:v9"
	for from, pods := range map[string]int{"config/default": 1, "config/with-agent": 2, "config/openshift": 2} {
		c.mustMake(t, "build-installer", "CONFIG="+from, "IMG="+image)
		got := c.installer(t)
		want, err := kustomize(t.Context(), from)
		cluster.Must(t, err)
		images(want)
		if diff := gocmp.Diff(slices.Repeat([]string{image}, pods), images(got)); diff != "" {
			t.Errorf("%s: the images (-want +got):\n%s", from, diff)
		}
		if diff := gocmp.Diff(byName(want), byName(got)); diff != "" || len(want) != len(got) {
			t.Errorf("%s: %d objects, not %d (-rendered +in the file):\n%s", from, len(got), len(want), diff)
		}
	}
	if out, err := execute(t.Context(), "diff", "-r", "config", filepath.Join(c.dir, "config")); err != nil {
		t.Errorf("config has changed: %v\n%s", err, out)
	}
	if out, err := c.make(t.Context(), "build-installer", "CONFIG=config/nothing"); err == nil {
		t.Errorf("an installer of nothing was built:\n%s", out)
	}
	// Docker would build and push the tag latest, and kustomize deploy the tag of the manifests.
	for _, target := range []string{"docker-build", "docker-push", "docker-buildx", "image", "build-installer"} {
		out, err := c.make(t.Context(), target, "-n", "IMG=registry.example.com:5000/nodegate")
		if err == nil || !strings.Contains(out, "has neither a tag nor a digest") {
			t.Errorf("make %s takes an image without a tag: %v\n%s", target, err, out)
		}
	}
	c.mustMake(t, "build-installer", "-n", "IMG=nodegate@sha256:"+strings.Repeat("a", 64))
}

// TestMakeDeletesOnlyItsGroup: beside the own group, the default one is another controller's.
func TestMakeDeletesOnlyItsGroup(t *testing.T) {
	c := newCheckout(t, nil)
	overlay := filepath.Join(c.dir, "dist", "overlay-of-a-user")
	cluster.Must(t, os.MkdirAll(overlay, 0o750))
	cluster.Must(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"),
		[]byte("resources: [../../config/default]\ncomponents: [../../config/components/own-group]\n"), 0o600))
	for config, want := range map[string]bool{
		"config/default": false, "config/own-group": true, "config/own-group/": true, "dist/overlay-of-a-user": true,
	} {
		for _, target := range []string{"install", "uninstall", "undeploy"} {
			out := c.mustMake(t, target, "-n", "CONFIG="+config)
			own := strings.Contains(out, "nodereadinessrules.rules.nodegate.io") ||
				strings.Contains(out, "--api-group=rules.nodegate.io")
			if own != want || own && strings.Contains(out, "nodereadinessrules.readiness") {
				t.Errorf("make %s CONFIG=%s is for the own group: %t, want %t:\n%s", target, config, own, want, out)
			}
		}
	}
	// The timeout is longer than the minute for which the operator waits for a node that it cannot update.
	for arg, want := range map[string]bool{"ARGS=": false, "API_GROUP=readiness.node.x-k8s.io": true} {
		out := c.mustMake(t, "uninstall", "-n", arg)
		if strings.Contains(out, "delete-rules --all --timeout=2m --api-group=readiness.node.x-k8s.io") != want {
			t.Errorf("make uninstall %s takes the group as the user's word: %t, want %t:\n%s", arg, !want, want, out)
		}
	}
	for arg, want := range map[string]string{
		"ARGS=": "config/olm", "API_GROUP=rules.nodegate.io": "config/own-group-olm",
	} {
		if out := c.mustMake(t, "bundle", "-n", arg); !strings.Contains(out, "build "+want+" |") {
			t.Errorf("make bundle %s does not build %s:\n%s", arg, want, out)
		}
	}
	// Kubernetes 1.32 to 1.35 can serve the alpha or beta of the policies' kind.
	if out := c.mustMake(t, "undeploy", "-n"); !strings.Contains(out, "get mutatingadmissionpolicies.v1.admission") {
		t.Errorf("undeploy does not ask for the version that it deletes:\n%s", out)
	}
	if out, err := c.make(t.Context(), "uninstall", "-n", "CONFIG=config/nothing"); err == nil {
		t.Errorf("a group of nothing:\n%s", out)
	}
}

// gone reports whether the cluster does not have the object, or not even its kind.
func gone(ctx context.Context, c client.Client, o object) (bool, error) {
	err := c.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy())
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return true, nil
	}
	return false, err
}

// TestEmptyCluster installs into a cluster without the CRD, whose controllers run.
func TestEmptyCluster(t *testing.T) {
	empty := cluster.ForTest(t, cluster.Options{ControllerManager: true, Log: t.Output()})
	t.Run("make", func(t *testing.T) { makeDeploy(t, empty) })
	t.Run("make, beside another controller", func(t *testing.T) { makeBeside(t, empty) })
	t.Run("helm", func(t *testing.T) { chartRulesOnAFirstInstall(t, empty) })
}

// makeDeploy: install and deploy create all objects. uninstall and undeploy delete all of them, the rules before the
// CRD.
func makeDeploy(t *testing.T, empty *cluster.Cluster) {
	there := empty.Client
	c := newCheckout(t, empty)
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"})
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
	cluster.Must(t, err)
	if err := there.Create(t.Context(), samples[0].DeepCopy()); err != nil {
		t.Fatalf("a rule after install: %v", err)
	}
	out := c.mustMake(t, "uninstall")
	check("uninstall", true, definition, samples[0])
	rule, crd := strings.Index(out, "/"+samples[0].GetName()+" deleted"),
		strings.Index(out, `"`+definition.GetName()+`" deleted`)
	if rule < 0 || crd < rule {
		t.Errorf("the rules are not deleted first, while an operator could clean up:\n%s", out)
	}
	if out, err := c.make(t.Context(), "uninstall"); err == nil {
		t.Errorf("uninstall succeeds a second time:\n%s", out)
	}
	c.mustMake(t, "uninstall", "ignore-not-found=true")

	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Namespace: "default"}}
	cluster.Must(t, there.Create(t.Context(), foreign))
	c.mustMake(t, "deploy", "CONFIG=config/with-agent", "IMG=registry.example.com/nodegate:v9")
	deployed := c.installer(t)
	for _, dir := range []string{"daemonset-evidence", "node-admission-policy", "endpoint-policy"} {
		if strings.HasSuffix(dir, "-policy") && !empty.Has(t, cluster.MutatingAdmissionPolicies) {
			continue
		}
		apart, err := kustomize(t.Context(), "config/"+dir) // as docs/install.md says
		cluster.Must(t, err)
		cluster.Must(t, applyTo(t.Context(), there, apart))
		deployed = append(deployed, apart...)
	}
	check("deploy", false, deployed...)
	c.mustMake(t, "deploy", "CONFIG=config/with-agent",
		"IMG=registry.example.com/nodegate:v10") // again, over what is there
	c.mustMake(t, "undeploy", "CONFIG=config/with-agent")
	check("undeploy", true, deployed...)
	if err := there.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Errorf("undeploy has deleted an object of others: %v", err)
	}
	if !empty.Has(t, cluster.MutatingAdmissionPolicies) {
		return
	}
	overlay := filepath.Join(c.dir, "dist", "overlay-with-all")
	cluster.Must(t, os.MkdirAll(overlay, 0o750))
	cluster.Must(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte("resources: [../../config/"+
		"with-node-admission-policy, ../../config/endpoint-policy, ../../config/daemonset-evidence]\n"), 0o600))
	c.mustMake(t, "deploy", "CONFIG=dist/overlay-with-all")
	deployed = c.installer(t)
	check("deploy", false, deployed...)
	c.mustMake(t, "undeploy", "CONFIG=dist/overlay-with-all")
	check("undeploy", true, deployed...)
}

// makeBeside: deploy and undeploy in the own API group leave another controller's CRD and rule as they are. Names
// without a group mean that controller's rules, also if they have a later version.
func makeBeside(t *testing.T, there *cluster.Cluster) {
	ours, err := crd.Load()
	cluster.Must(t, err)
	theirs := ours.DeepCopy()
	theirs.Spec.Versions[0].Name = "v1beta1"
	cluster.Must(t, there.InstallCRD(theirs))
	rule := ruleOf(t, "readiness.node.x-k8s.io/v1beta1", "theirs", "Theirs")
	rule.SetFinalizers([]string{"readiness.node.x-k8s.io/cleanup-taints"})
	cluster.Must(t, there.Client.Create(t.Context(), rule))
	cluster.Must(t, there.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))

	c := newCheckout(t, there)
	c.mustMake(t, "deploy", "CONFIG=config/own-group", "IMG=registry.example.com/nodegate:v9")
	cluster.Must(t, there.Client.Create(t.Context(), ruleOf(t, "rules.nodegate.io/v1alpha1", "ours", "Ours")))
	cache := t.TempDir()
	for name, want := range map[string]string{"nodereadinessrules": "readiness.node.x-k8s.io/theirs",
		"nodereadinessrule": "readiness.node.x-k8s.io/theirs", "nrr": "readiness.node.x-k8s.io/theirs",
		"ngr": "rules.nodegate.io/ours"} {
		out, err := execute(t.Context(), filepath.Join(there.Assets(), "kubectl"), "--kubeconfig", there.Kubeconfig(),
			"--cache-dir", cache, "get", name, "-o", "name")
		if err != nil || string(out) != "nodereadinessrule."+want+"\n" {
			t.Errorf("kubectl get %s: %q, want %s (%v)", name, out, want, err)
		}
	}
	deployed := c.installer(t)
	c.mustMake(t, "undeploy", "CONFIG=config/own-group")
	for _, o := range deployed {
		if gone, err := gone(t.Context(), there.Client, o); err != nil || !gone {
			t.Errorf("after undeploy, %s %s is still there: %v", o.GetKind(), o.GetName(), err)
		}
	}

	now, crdNow := rule.DeepCopy(), theirs.DeepCopy()
	cluster.Must(t, there.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), now))
	cluster.Must(t, there.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), crdNow))
	if now.GetResourceVersion() != rule.GetResourceVersion() || crdNow.Generation != theirs.Generation {
		t.Errorf("the other controller's rule or CRD has changed: %v, %v", now, crdNow.ObjectMeta)
	}
	now.SetFinalizers(nil)
	cluster.Must(t, there.Client.Update(t.Context(), now))
	cluster.Must(t, there.Client.Delete(t.Context(), crdNow))
	cluster.Must(t, cluster.Poll(t.Context(), cluster.Limit, func() error {
		err := there.Client.Get(t.Context(), client.ObjectKeyFromObject(crdNow), crdNow)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return cmp.Or(err, errors.New("the CRD is still there"))
	}))
}

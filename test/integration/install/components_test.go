// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestComponents: each component does to config/default what the chart's value does, and no more; and what is rendered is
// valid.
func TestComponents(t *testing.T) {
	installSCC(t)
	for name, c := range map[string]struct {
		base      string // instead of default
		add, drop []string
		set       string // the chart's values
	}{
		"without webhooks":               {drop: []string{"webhooks"}, set: "webhooks.enabled=false"},
		"without the record guard":       {drop: []string{"record-guard"}, set: "recordGuard.enabled=false"},
		"node-admission-policy":          {base: "with-node-admission-policy"},
		"pod-admission":                  {add: []string{"pod-admission"}, set: "podAdmission.enabled=true"},
		"node-admission-fail":            {add: []string{"node-admission-fail"}, set: "nodeAdmission.failurePolicy=Fail"},
		"cert-manager":                   {add: []string{"cert-manager"}, set: "webhooks.certManager.enabled=true"},
		"network-policy":                 {add: []string{"network-policy"}, set: "networkPolicy.enabled=true"},
		"agent-without-host-root":        {base: "with-agent", add: []string{"agent-without-host-root"}, set: "agent.enabled=true,agent.hostRoot.enabled=false"},
		"openshift":                      {add: []string{"openshift"}, set: "openshift.enabled=true"},
		"openshift after network-policy": {add: []string{"network-policy", "openshift"}, set: "openshift.enabled=true,networkPolicy.enabled=true"},
		"openshift-agent":                {base: "openshift", set: "openshift.enabled=true,agent.enabled=true"},
		"openshift-agent-hostnetwork": {base: "openshift", drop: []string{"openshift-agent"}, add: []string{"openshift-agent-hostnetwork"},
			set: "openshift.enabled=true,agent.enabled=true,agent.hostRoot.enabled=false"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := overlay(t, c.base, c.drop, c.add)
			args := []string{"--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"} // as of an API server that knows it
			if c.set != "" {
				args = []string{"--set", c.set}
			}
			chart, err := helm(t.Context(), args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(byName(objects), byName(chart)); diff != "" {
				t.Errorf("-component +chart:\n%s", diff)
			}
			if cmp.Equal(byName(objects), byName(installed)) {
				t.Error("it changes nothing")
			}
			for _, o := range objects {
				if o.GetKind() == "CustomResourceDefinition" || strings.HasPrefix(o.GetAPIVersion(), "cert-manager.io/") {
					continue
				}
				o.SetName("component-" + o.GetName())
				if err := kube.Create(t.Context(), o, client.DryRunAll); err != nil {
					t.Errorf("%s %s is not valid: %v", o.GetKind(), o.GetName(), err)
				}
			}
		})
	}
}

// overlay renders a directory of config/, default if none is given, without some of its components, and with others.
func overlay(t *testing.T, base string, drop, add []string) []object {
	t.Helper()
	if base == "" {
		base = "default"
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "config"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, base, "kustomization.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	for _, d := range drop {
		lines = slices.DeleteFunc(lines, func(l string) bool { return l == "- ../components/"+d })
	}
	for _, a := range add {
		lines = append(lines, "- ../components/"+a)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := kustomize(t.Context(), filepath.Join(dir, base))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestLocal: what "make run-webhooks" registers are the webhooks of config/default, called on this machine.
func TestLocal(t *testing.T) {
	objects, err := kustomize(t.Context(), "config/local")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		paths := func(objects []object) (out []string) {
			for _, o := range objects {
				hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
				if err != nil || o.GetKind() != kind {
					continue
				}
				for _, h := range hooks {
					hook, ok := h.(map[string]any)
					if !ok {
						t.Fatalf("%s: a webhook is no object", o.GetName())
					}
					path, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "path")
					url, _, _ := unstructured.NestedString(hook, "clientConfig", "url")
					out = append(out, path+strings.TrimPrefix(url, "https://localhost:9443"))
				}
			}
			return out
		}
		if diff := cmp.Diff(paths(installed), paths(objects)); diff != "" || len(paths(objects)) == 0 {
			t.Errorf("%s (-config/default +config/local):\n%s", kind, diff)
		}
	}
	for _, o := range objects {
		o.SetName("local-" + o.GetName())
		if err := kube.Create(t.Context(), o, client.DryRunAll); err != nil {
			t.Errorf("%s %s is not valid: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

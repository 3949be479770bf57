// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

// TestComponents: the overlays and components of config render what the chart renders from values, and the API server
// accepts it. So the chart's own suites need no cases for its defaults and for these values.
func TestComponents(t *testing.T) {
	installSCC(t)
	for name, c := range map[string]struct {
		base      string // instead of default
		beside    string // applied after it
		add, drop []string
		set       string // the chart's values
	}{
		"default":    {},
		"with-agent": {base: "with-agent", set: "agent.enabled=true"},
		"own-group":  {add: []string{"own-group"}, set: "apiGroup=rules.nodegate.io"},
		"own-group after the others": {base: "with-agent",
			add: []string{"pod-admission", "node-claims", "published-conditions", "network-policy", "own-group"},
			set: "agent.enabled=true,podAdmission.enabled=true,nodeClaims.enabled=true,publishedConditions.enabled=true," +
				"networkPolicy.enabled=true,apiGroup=rules.nodegate.io"},
		"without webhooks":         {drop: []string{"webhooks"}, set: "webhooks.enabled=false"},
		"without the record guard": {add: []string{"no-record-guard"}, set: "recordGuard.enabled=false"},
		"node-admission-policy":    {base: "with-node-admission-policy", set: "nodeAdmission.engine=auto"},
		"pod-admission":            {add: []string{"pod-admission"}, set: "podAdmission.enabled=true"},
		"node-claims":              {add: []string{"node-claims"}, set: "nodeClaims.enabled=true"},
		"published-conditions":     {add: []string{"published-conditions"}, set: "publishedConditions.enabled=true"},
		"endpoint-policy":          {beside: "endpoint-policy", set: "evictionGuard.endpoints.enabled=true"},
		"daemonset-evidence":       {beside: "daemonset-evidence", set: "daemonSetNamespaces={kube-system}"},
		"node-admission-fail":      {add: []string{"node-admission-fail"}, set: "nodeAdmission.failurePolicy=Fail"},
		"cert-manager":             {add: []string{"cert-manager"}, set: "webhooks.certManager.enabled=true"},
		"network-policy":           {add: []string{"network-policy"}, set: "networkPolicy.enabled=true"},
		"openshift":                {add: []string{"openshift"}, set: "openshift.enabled=true"},
		"aggregated-roles":         {add: []string{"aggregated-roles"}, set: "rbac.aggregate=true,rbac.aggregateWrite=true"},
		"openshift-agent":          {base: "openshift", set: "openshift.enabled=true,agent.enabled=true"},
		"monitoring": {base: "with-agent", add: []string{"monitoring"}, set: "agent.enabled=true," +
			"monitoring.serviceMonitor.enabled=true,monitoring.podMonitor.enabled=true,monitoring.prometheusRule.enabled=true"},
		"openshift after network-policy": {add: []string{"network-policy", "openshift"},
			set: "openshift.enabled=true,networkPolicy.enabled=true"},
		"agent-without-host-root": {base: "with-agent", add: []string{"agent-without-host-root"},
			set: "agent.enabled=true,agent.hostRoot.enabled=false"},
		"agent-runtime-socket": {base: "with-agent", add: []string{"agent-runtime-socket"},
			set: "agent.enabled=true,agent.runtimeSocket=true"},
		"openshift and agent-runtime-socket": {base: "openshift", add: []string{"agent-runtime-socket"},
			set: "openshift.enabled=true,agent.enabled=true,agent.runtimeSocket=true"},
		"the order of docs/install.md": {
			add: []string{"agent", "openshift-agent", "agent-runtime-socket", "network-policy", "openshift", "own-group"},
			set: "openshift.enabled=true,agent.enabled=true,agent.runtimeSocket=true,networkPolicy.enabled=true," +
				"apiGroup=rules.nodegate.io"},
		"openshift-agent-hostnetwork": {base: "openshift", drop: []string{"openshift-agent"},
			add: []string{"openshift-agent-hostnetwork"},
			set: "openshift.enabled=true,agent.enabled=true,agent.hostRoot.enabled=false"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := overlay(t, c.base, c.drop, c.add)
			if c.beside != "" {
				more, err := kustomize(t.Context(), "config/"+c.beside)
				cluster.Must(t, err)
				objects = append(objects, more...)
			}
			args := []string{"--set", c.set}
			if c.base == "with-node-admission-policy" { // as on an API server that serves such policies
				args = append(args, "--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
			}
			chart, err := helm(t.Context(), args...)
			cluster.Must(t, err)
			if slices.Contains(c.add, "own-group") { // whose CRD is not in the chart
				objects, chart = slices.DeleteFunc(objects, isCRDOfRules), slices.DeleteFunc(chart, isCRDOfRules)
			}
			if diff := gocmp.Diff(byName(objects), byName(chart)); diff != "" {
				t.Errorf("-config +chart:\n%s", diff)
			}
			if c.set != "" && gocmp.Equal(byName(objects), byName(installed)) {
				t.Error("it renders the same as config/default")
			}
			validate(t, objects)
		})
	}
}

// TestAnotherNamespace: docs/install.md says to replace the namespace in what kustomize renders. That is what the chart
// renders in that namespace.
func TestAnotherNamespace(t *testing.T) {
	for base, set := range map[string]string{"config/default": "", "config/with-agent": ",agent.enabled=true"} {
		rendered, err := tool(t.Context(), "kustomize", "build", base)
		cluster.Must(t, err)
		objects, err := cluster.ParseObjects(bytes.ReplaceAll(rendered, []byte(namespace), []byte("platform")))
		cluster.Must(t, err)
		chart, err := helm(t.Context(), "--set=namespaceOverride=platform"+set)
		cluster.Must(t, err)
		if diff := gocmp.Diff(byName(objects), byName(chart)); diff != "" {
			t.Errorf("%s (-config +chart):\n%s", base, diff)
		}
	}
}

func isCRDOfRules(o object) bool {
	return o.GetKind() == "CustomResourceDefinition" && strings.HasPrefix(o.GetName(), "nodereadinessrules.")
}

// validate creates the objects under other names, in a dry run, except for kinds that the API server does not serve.
func validate(t *testing.T, objects []object) {
	t.Helper()
	policies := control.Has(t, cluster.MutatingAdmissionPolicies)
	for _, o := range objects {
		group := o.GroupVersionKind().Group
		if o.GetKind() == "CustomResourceDefinition" || group == "cert-manager.io" || group == "monitoring.coreos.com" ||
			strings.HasPrefix(o.GetKind(), "MutatingAdmissionPolicy") && !policies {
			continue
		}
		o.SetName("valid-" + o.GetName())
		if err := kube.Create(t.Context(), o, client.DryRunAll); err != nil {
			t.Errorf("%s %s is not valid: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// byName returns objects by kind and name, without what kustomize and Helm cannot have in common: the namespace, which
// Helm creates itself, and the labels that Helm requires.
func byName(objects []object) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, o := range objects {
		if o.GetKind() == "Namespace" {
			continue
		}
		o = o.DeepCopy()
		labels := o.GetLabels()
		for _, l := range []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"} {
			delete(labels, l)
		}
		o.SetLabels(labels)
		rules, _ := o.Object["rules"].([]any)
		for _, r := range rules { // the order of verbs has no meaning
			if rule, ok := r.(map[string]any); ok && rule["verbs"] != nil {
				verbs, _, _ := unstructured.NestedStringSlice(rule, "verbs")
				slices.Sort(verbs)
				rule["verbs"] = verbs
			}
		}
		out[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o.Object
	}
	return out
}

// overlay renders an overlay of a directory of config, by default of config/default, without some of its components and
// with others, as docs/install.md says.
func overlay(t *testing.T, base string, drop, add []string) []object {
	t.Helper()
	dir := t.TempDir()
	cluster.Must(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "config"))))
	base = cmp.Or(base, "default")
	file := filepath.Join(dir, base, "kustomization.yaml")
	raw, err := os.ReadFile(file)
	cluster.Must(t, err)
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	for _, d := range drop {
		lines = slices.DeleteFunc(lines, func(l string) bool { return l == "- ../components/"+d })
	}
	cluster.Must(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	text := "resources: [../" + base + "]\ncomponents:\n"
	for _, a := range add {
		text += "- ../components/" + a + "\n"
	}
	user := filepath.Join(dir, "user")
	cluster.Must(t, os.Mkdir(user, 0o700))
	cluster.Must(t, os.WriteFile(filepath.Join(user, "kustomization.yaml"), []byte(text), 0o600))
	objects, err := kustomize(t.Context(), user)
	cluster.Must(t, err)
	return objects
}

// TestWithAgentIsConfigDefault: config/with-agent adds objects to config/default and changes none but the namespace.
func TestWithAgentIsConfigDefault(t *testing.T) {
	all := byName(withAgents(t))
	for id, o := range byName(installed) {
		if diff := gocmp.Diff(o, all[id]); diff != "" {
			t.Errorf("%s (-config/default +config/with-agent):\n%s", id, diff)
		}
	}
}

// TestLocal: "make run-webhooks" registers the webhooks of config/default, at URLs of this machine.
func TestLocal(t *testing.T) {
	objects, err := kustomize(t.Context(), "config/local")
	cluster.Must(t, err)
	paths := func(objects []object, fields ...string) (out []string) {
		for _, o := range objects {
			hooks, _ := o.Object["webhooks"].([]any)
			for _, h := range hooks {
				hook, _ := h.(map[string]any)
				path, _, _ := unstructured.NestedString(hook, fields...)
				out = append(out, o.GetKind()+" "+strings.TrimPrefix(path, "https://localhost:9443"))
			}
		}
		return out
	}
	want := paths(installed, "clientConfig", "service", "path")
	if diff := gocmp.Diff(want, paths(objects, "clientConfig", "url")); diff != "" || len(want) == 0 {
		t.Errorf("-config/default +config/local:\n%s", diff)
	}
	validate(t, objects)
}

// TestSamples: config/samples renders all its files, and the API server accepts them.
func TestSamples(t *testing.T) {
	samples, err := kustomize(t.Context(), "config/samples")
	cluster.Must(t, err)
	files, err := filepath.Glob(filepath.Join(root, "config", "samples", "*.yaml"))
	cluster.Must(t, err)
	if len(samples) != len(files)-1 {
		t.Errorf("%d samples of %d files are rendered", len(samples), len(files)-1)
	}
	validate(t, samples)

	dir := t.TempDir()
	cluster.Must(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "config"))))
	file := filepath.Join(dir, "samples", "kustomization.yaml")
	raw, err := os.ReadFile(file)
	cluster.Must(t, err)
	cluster.Must(t, os.WriteFile(file, append(raw, "components: [../components/own-group]\n"...), 0o600))
	own, err := kustomize(t.Context(), filepath.Dir(file))
	cluster.Must(t, err)
	for i := range own {
		if got := own[i].GetAPIVersion(); got != "rules.nodegate.io/v1alpha1" {
			t.Errorf("with the component own-group, rule %s is of %s", own[i].GetName(), got)
		}
	}
}

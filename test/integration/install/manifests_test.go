// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRoleIsGenerated: the roles that are installed are what the markers in the code say.
func TestRoleIsGenerated(t *testing.T) {
	for _, c := range []struct{ role, markers, dir string }{
		{"manager-role", "./cmd/manager/...", "rbac"},
		{"webhook-role", "./internal/admission/...;./internal/guard/...", "webhook"},
	} {
		generated, err := tool(t.Context(), "controller-gen", "rbac:roleName="+c.role, "paths="+c.markers, "output:stdout")
		if err != nil {
			t.Fatal(err)
		}
		committed, err := os.ReadFile(filepath.Join(root, "config", c.dir, "role.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(bytes.TrimSpace(generated)), string(bytes.TrimSpace(committed))); diff != "" {
			t.Errorf("config/%s/role.yaml is out of date (-generated +committed):\n%s", c.dir, diff)
		}
	}
}

// TestChartIsConfigDefault: the chart renders the objects of config/default, but for the namespace, which Helm makes
// itself, and the labels that Helm wants.
func TestChartIsConfigDefault(t *testing.T) {
	chart, err := helm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(byName(installed), byName(chart)); diff != "" {
		t.Errorf("-config/default +chart:\n%s", diff)
	}
}

// byName are objects by kind and name, without what the two ways of installation rightly do not share.
func byName(objects []object) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, o := range objects {
		if o.GetKind() == "Namespace" {
			continue
		}
		o = o.DeepCopy()
		has := o.GetLabels()
		for _, l := range []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"} {
			delete(has, l)
		}
		o.SetLabels(has)
		sortVerbs(o)
		out[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o.Object
	}
	return out
}

// sortVerbs: their order means nothing.
func sortVerbs(o object) {
	rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
	for _, r := range rules {
		if rule, ok := r.(map[string]any); ok {
			verbs, _, _ := unstructured.NestedStringSlice(rule, "verbs")
			slices.Sort(verbs)
			_ = unstructured.SetNestedStringSlice(rule, verbs, "verbs")
		}
	}
	if len(rules) > 0 {
		_ = unstructured.SetNestedSlice(o.Object, rules, "rules")
	}
}

// TestChartApplies: the chart's objects are valid, and fit over those of config/default without a conflict.
func TestChartApplies(t *testing.T) {
	chart, err := helm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := apply(t.Context(), chart, "helm"); err != nil {
		t.Error(err)
	}
}

func TestSamples(t *testing.T) {
	samples, err := kustomize(t.Context(), "config/samples")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "samples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) != len(files)-1 {
		t.Errorf("%d samples of %d files are rendered", len(samples), len(files)-1)
	}
	for _, s := range samples {
		if err := kube.Create(t.Context(), s, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", s.GetName(), err)
		}
	}
}

func deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d, err := find[appsv1.Deployment](installed, "Deployment", "nodegate-manager")
	if err != nil {
		t.Fatal(err)
	}
	return &d
}

// TestPod: the operator's pod is one that the namespace admits, under the strictest of the pod security standards.
func TestPod(t *testing.T) {
	template := deployment(t).Spec.Template
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Name, pod.Namespace = "as-deployed", namespace
	if err := kube.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("the pod is not admitted: %v", err)
	}
	pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
	if err := kube.Create(t.Context(), pod, client.DryRunAll); err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		t.Errorf("the namespace does not enforce the restricted standard: %v", err)
	}
}

// TestPodIsNeverBlockedByItsOwnTaint: nor by anybody else's, whatever a rule puts on a node.
func TestPodIsNeverBlockedByItsOwnTaint(t *testing.T) {
	tolerations := deployment(t).Spec.Template.Spec.Tolerations
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute} {
		taint := &corev1.Taint{Key: "readiness.k8s.io/NetworkReady", Value: "pending", Effect: effect}
		if !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), taint, false) && t.TolerationSeconds == nil
		}) {
			t.Errorf("%s is not tolerated", taint.ToString())
		}
	}
}

// TestDeployment: what an operator of many nodes expects of a deployment.
func TestDeployment(t *testing.T) {
	type facts struct {
		Replicas          int32
		PriorityClass     string
		Ports             map[string]int32
		Probes            []string
		ReadOnlyRoot      bool
		User              int64
		Requests          []corev1.ResourceName
		SpreadOverHosts   bool
		SpreadOverZones   bool
		LongerThanItTakes bool
	}
	d := deployment(t)
	spec := &d.Spec.Template.Spec
	c := &spec.Containers[0]
	got := facts{
		Replicas:          *d.Spec.Replicas,
		PriorityClass:     spec.PriorityClassName,
		Ports:             map[string]int32{},
		Probes:            []string{c.LivenessProbe.HTTPGet.Path + " " + c.LivenessProbe.HTTPGet.Port.String(), c.ReadinessProbe.HTTPGet.Path + " " + c.ReadinessProbe.HTTPGet.Port.String()},
		ReadOnlyRoot:      *c.SecurityContext.ReadOnlyRootFilesystem,
		User:              *spec.SecurityContext.RunAsUser,
		Requests:          slices.Sorted(maps.Keys(c.Resources.Requests)),
		SpreadOverHosts:   spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.TopologyKey == corev1.LabelHostname,
		SpreadOverZones:   spec.TopologySpreadConstraints[0].WhenUnsatisfiable == corev1.ScheduleAnyway,
		LongerThanItTakes: *spec.TerminationGracePeriodSeconds > 30,
	}
	for _, p := range c.Ports {
		got.Ports[p.Name] = p.ContainerPort
	}
	want := facts{2, "system-cluster-critical", map[string]int32{"metrics": 8443, "probes": 8081, "webhook": 9443}, []string{"/healthz probes", "/readyz probes"},
		true, 65532, []corev1.ResourceName{"cpu", "memory"}, true, true, true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, name := range []string{"nodegate-manager-metrics", "nodegate-webhook"} {
		service, err := find[corev1.Service](installed, "Service", name)
		if err != nil {
			t.Fatal(err)
		}
		if _, named := got.Ports[service.Spec.Ports[0].TargetPort.String()]; !named {
			t.Errorf("the port %s of %s is none of the pod's", service.Spec.Ports[0].TargetPort.String(), name)
		}
		selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: service.Spec.Selector})
		if err != nil || !selector.Matches(labels.Set(d.Spec.Template.Labels)) {
			t.Errorf("%s does not select the pods: %v %v", name, selector, err)
		}
	}
}

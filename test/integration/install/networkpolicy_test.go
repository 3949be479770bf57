// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// reachable are the ports that the rules let in or out, with the protocol; "all" for a rule without any.
func reachable(ports [][]networkingv1.NetworkPolicyPort) (out []string) {
	for _, rule := range ports {
		if len(rule) == 0 {
			out = append(out, "all")
		}
		for _, p := range rule {
			out = append(out, string(*p.Protocol)+"/"+p.Port.String())
		}
	}
	slices.Sort(out)
	return out
}

func ingressOf(p *networkingv1.NetworkPolicy) []string {
	var ports [][]networkingv1.NetworkPolicyPort
	for _, r := range p.Spec.Ingress {
		ports = append(ports, r.Ports)
	}
	return reachable(ports)
}

func egressOf(p *networkingv1.NetworkPolicy) []string {
	var ports [][]networkingv1.NetworkPolicyPort
	for _, r := range p.Spec.Egress {
		ports = append(ports, r.Ports)
	}
	return reachable(ports)
}

func selects(t *testing.T, p *networkingv1.NetworkPolicy, pod *corev1.PodTemplateSpec) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(labels.Set(pod.Labels))
}

// TestNetworkPolicy: the policy lets the operator's pods be reached by the ports that they have, and by no other, whatever
// is on; and lets them reach the API server and DNS.
func TestNetworkPolicy(t *testing.T) {
	dns := []string{"TCP/443", "TCP/53", "TCP/6443", "UDP/53"}
	for set, egress := range map[string][]string{
		"podDisruptionBudget.enabled=true":    dns, // as it is without any value
		"webhooks.port=10250":                 dns,
		"webhooks.enabled=false":              dns,
		"metrics.enabled=false":               dns,
		"metrics.port=9999":                   dns,
		"networkPolicy.apiServerPorts={7443}": {"TCP/53", "TCP/7443", "UDP/53"},
		"openshift.enabled=true":              {"TCP/443", "TCP/53", "TCP/5353", "TCP/6443", "UDP/53", "UDP/5353"},
	} {
		t.Run(set, func(t *testing.T) {
			objects, err := helm(t.Context(), "--set", "networkPolicy.enabled=true,agent.enabled=true", "--set", set)
			if err != nil {
				t.Fatal(err)
			}
			policy, err := find[networkingv1.NetworkPolicy](objects, "NetworkPolicy", serviceAccount)
			if err != nil {
				t.Fatal(err)
			}
			d, err := find[appsv1.Deployment](objects, "Deployment", serviceAccount)
			if err != nil {
				t.Fatal(err)
			}
			var ports []string
			for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
				ports = append(ports, reachable([][]networkingv1.NetworkPolicyPort{{{Protocol: &p.Protocol, Port: new(intstr.FromInt32(p.ContainerPort))}}})...)
			}
			slices.Sort(ports)
			if diff := cmp.Diff(ports, ingressOf(&policy)); diff != "" {
				t.Errorf("in (-the pods' ports +the policy's):\n%s", diff)
			}
			if diff := cmp.Diff(egress, egressOf(&policy)); diff != "" {
				t.Errorf("out (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]networkingv1.PolicyType{"Ingress", "Egress"}, policy.Spec.PolicyTypes); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !selects(t, &policy, &d.Spec.Template) {
				t.Error("it does not select the operator's pods")
			}
			if selects(t, &policy, pods(t, objects)["agent"]) {
				t.Error("it selects the node agents, too")
			}
		})
	}
}

// TestNetworkPolicyMetricsFrom: who may read the metrics can be narrowed; whoever calls webhooks and probes has no address that
// is known.
func TestNetworkPolicyMetricsFrom(t *testing.T) {
	objects, err := helm(t.Context(), "--set", "networkPolicy.enabled=true", "--set-json", `networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"a":"b"}}}]`)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := find[networkingv1.NetworkPolicy](objects, "NetworkPolicy", serviceAccount)
	if err != nil {
		t.Fatal(err)
	}
	from := map[string]int{}
	for _, r := range policy.Spec.Ingress {
		for _, p := range r.Ports {
			from[p.Port.String()] = len(r.From)
		}
	}
	if diff := cmp.Diff(map[string]int{"9443": 0, "8081": 0, "8443": 1}, from); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for set, want := range map[string]string{
		"networkPolicy.apiServerPorts=null":    "networkPolicy.apiServerPorts: name at least one port",
		"networkPolicy.apiServerPorts={https}": "at '/networkPolicy/apiServerPorts/0': got string, want integer",
		"networkPolicy.dns=true":               "additional properties 'dns' not allowed",
		"openshift.scc=mine":                   "additional properties 'scc' not allowed",
		"agent.hostRoot=false":                 "at '/agent/hostRoot': got boolean, want object",
	} {
		if _, err := helm(t.Context(), "--set", "networkPolicy.enabled=true", "--set", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s\nshould be refused with: %s\nbut: %v", set, want, err)
		}
	}
}

// upgradeHooks are what the chart installs for the time of an upgrade, with the job that upgrades the definition.
func upgradeHooks(t *testing.T, set string) []object {
	t.Helper()
	out, err := tool(t.Context(), "helm", "template", "nodegate", "charts/nodegate", "--namespace", namespace, "--kube-version", "1.32.0",
		"--show-only=templates/crd_upgrade.yaml", "--set", set)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := parse(out)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func upgradeJob(t *testing.T, hooks []object) *corev1.PodTemplateSpec {
	t.Helper()
	job, err := find[batchv1.Job](hooks, "Job", "nodegate-crd-upgrade")
	if err != nil {
		t.Fatal(err)
	}
	return &job.Spec.Template
}

// TestNetworkPolicyOfTheUpgrade: the job reaches the API server, and nobody reaches it; the policy is there before it.
func TestNetworkPolicyOfTheUpgrade(t *testing.T) {
	hooks := upgradeHooks(t, "networkPolicy.enabled=true")
	policy, err := find[networkingv1.NetworkPolicy](hooks, "NetworkPolicy", "nodegate-crd-upgrade")
	if err != nil {
		t.Fatal(err)
	}
	if !selects(t, &policy, upgradeJob(t, hooks)) || selects(t, &policy, &deployment(t).Spec.Template) {
		t.Errorf("it selects others than the job's pod: %v", policy.Spec.PodSelector)
	}
	if diff := cmp.Diff([]string{"TCP/443", "TCP/53", "TCP/6443", "UDP/53"}, egressOf(&policy)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(policy.Spec.Ingress) > 0 || len(policy.Spec.PolicyTypes) != 2 {
		t.Errorf("it can be reached: %+v", policy.Spec)
	}
	if w := policy.Annotations["helm.sh/hook-weight"]; w != "-2" || policy.Annotations["helm.sh/hook"] != "pre-upgrade" {
		t.Errorf("it does not come before the job: %v", policy.Annotations)
	}
	if _, err := find[networkingv1.NetworkPolicy](upgradeHooks(t, "networkPolicy.enabled=false"), "NetworkPolicy", "nodegate-crd-upgrade"); err == nil {
		t.Error("it is there though policies are off")
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// admits asks the API server whether a namespace with the labels admits the pod.
func admits(t *testing.T, enforce string, template *corev1.PodTemplateSpec) error {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "admits-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": enforce}}}
	if err := kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Name, pod.Namespace = "as-rendered", ns.Name
	return kube.Create(t.Context(), pod, client.DryRunAll)
}

// TestPodSecurity: the namespace of each way of installation admits the pods that are installed there, and is no more lenient
// than it must be.
func TestPodSecurity(t *testing.T) {
	for name, c := range map[string]struct {
		objects  []object
		standard string
		stricter string // refuses some of the pods
	}{
		"config/default":       {installed, "restricted", ""},
		"config/with-agent":    {withAgents(t), "privileged", "baseline"},
		"config/openshift":     {overlay(t, "openshift", nil, nil), "privileged", "baseline"},
		"agents without files": {overlay(t, "with-agent", nil, []string{"agent-without-host-root"}), "privileged", "baseline"},
	} {
		t.Run(name, func(t *testing.T) {
			ns, err := find[corev1.Namespace](c.objects, "Namespace", namespace)
			if err != nil {
				t.Fatal(err)
			}
			if got := ns.Labels["pod-security.kubernetes.io/enforce"]; got != c.standard {
				t.Errorf("the namespace enforces %q, not %q", got, c.standard)
			}
			var refused []string
			for name, pod := range pods(t, c.objects) {
				if err := admits(t, c.standard, pod); err != nil {
					t.Errorf("%s is not admitted: %v", name, err)
				}
				if c.stricter != "" && admits(t, c.stricter, pod) != nil {
					refused = append(refused, name)
				}
			}
			if c.stricter != "" && strings.Join(refused, " ") != "agent" {
				t.Errorf("%s refuses %v, not the agents", c.stricter, refused)
			}
		})
	}
}

// TestPodSecurityOfTheUpgrade: the chart's namespace may be as strict.
func TestPodSecurityOfTheUpgrade(t *testing.T) {
	for _, set := range []string{"openshift.enabled=false", "openshift.enabled=true"} {
		if err := admits(t, "restricted", upgradeJob(t, upgradeHooks(t, set))); err != nil {
			t.Errorf("--set %s: %v", set, err)
		}
	}
	// On OpenShift it runs under the same SCC as the operator.
	job := upgradeJob(t, upgradeHooks(t, "openshift.enabled=true"))
	if refusals := readSCC(t, stock["restricted-v2"]).judge(&job.Spec); len(refusals) > 0 {
		t.Errorf("restricted-v2 refuses it: %v", refusals)
	}
}

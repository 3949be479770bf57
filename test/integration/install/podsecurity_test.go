// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

// admits asks the API server whether a namespace that enforces a pod security standard admits the pod.
func admits(t *testing.T, standard string, template *corev1.PodTemplateSpec) error {
	t.Helper()
	labels := map[string]string{"pod-security.kubernetes.io/enforce": standard}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "admits-", Labels: labels}}
	cluster.Must(t, kube.Create(t.Context(), ns))
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Name, pod.Namespace = "as-rendered", ns.Name
	return kube.Create(t.Context(), pod, client.DryRunAll)
}

// pods are the pod templates of the operator and, if they are rendered, the agents.
func pods(t *testing.T, objects []object) map[string]*corev1.PodTemplateSpec {
	t.Helper()
	d, err := find[appsv1.Deployment](objects, "Deployment", serviceAccount)
	cluster.Must(t, err)
	out := map[string]*corev1.PodTemplateSpec{"manager": &d.Spec.Template}
	if ds, err := find[appsv1.DaemonSet](objects, "DaemonSet", agentAccount); err == nil {
		out["agent"] = &ds.Spec.Template
	}
	return out
}

// TestPodSecurity: the namespace of each way of installation admits its pods, and enforces the strictest standard that
// does.
func TestPodSecurity(t *testing.T) {
	for name, c := range map[string]struct {
		objects  []object
		standard string
		stricter string // refuses the agents
	}{
		"config/default":    {installed, "restricted", ""},
		"config/with-agent": {withAgents(t), "privileged", "baseline"},
		"config/openshift":  {overlay(t, "openshift", nil, nil), "privileged", "baseline"},
		"agents without files": {overlay(t, "with-agent", nil, []string{"agent-without-host-root"}), "privileged",
			"baseline"},
	} {
		t.Run(name, func(t *testing.T) {
			ns, err := find[corev1.Namespace](c.objects, "Namespace", namespace)
			cluster.Must(t, err)
			if got := ns.Labels["pod-security.kubernetes.io/enforce"]; got != c.standard {
				t.Errorf("the namespace enforces %q, not %q", got, c.standard)
			}
			for name, pod := range pods(t, c.objects) {
				if err := admits(t, c.standard, pod); err != nil {
					t.Errorf("%s is not admitted: %v", name, err)
				}
				if c.stricter != "" && (admits(t, c.stricter, pod) != nil) != (name == "agent") {
					t.Errorf("the standard %s must refuse the agents, and only them: not so for %s", c.stricter, name)
				}
			}
		})
	}
}

// admitsSCC reports why an SCC would refuse a pod. Each of the three SCCs allows what the pod security standard
// "restricted" allows, which the API server knows best, except that it has the users, the groups and the SELinux
// options that a pod may choose. Our own and hostnetwork-v2 also allow the host's network, and our own host paths.
// (OpenShift's matcher, github.com/openshift/apiserver-library-go, cannot be used: it needs a fork of
// k8s.io/kubernetes.)
func admitsSCC(t *testing.T, scc string, template *corev1.PodTemplateSpec) error {
	t.Helper()
	pod := template.DeepCopy()
	user := (*int64)(nil) // OpenShift chooses it and the groups from the namespace's range
	if scc == agentAccount {
		user = new(int64(65532)) // the ranges are in charts/nodegate/tests/openshift_test.yaml
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
		pod.Spec.Containers[0].VolumeMounts = nil
	}
	if scc != "restricted-v2" {
		pod.Spec.HostNetwork = false
		for i := range pod.Spec.Containers[0].Ports {
			pod.Spec.Containers[0].Ports[i].HostPort = 0
		}
		for _, probe := range []*corev1.Probe{pod.Spec.Containers[0].LivenessProbe, pod.Spec.Containers[0].ReadinessProbe} {
			if probe != nil && probe.HTTPGet != nil {
				probe.HTTPGet.Host = "" // an SCC says nothing about the hosts of probes
			}
		}
	}
	sc := pod.Spec.SecurityContext
	switch own := pod.Spec.Containers[0].SecurityContext; {
	case own.RunAsUser != nil || (sc.RunAsUser == nil) != (user == nil) || user != nil && *sc.RunAsUser != *user:
		return errors.New("the user")
	case len(sc.SupplementalGroups) > 0 || sc.FSGroup != nil:
		return errors.New("the groups")
	case sc.SELinuxOptions != nil || own.SELinuxOptions != nil:
		return errors.New("the SELinux options")
	case scc == agentAccount && (own.ReadOnlyRootFilesystem == nil || !*own.ReadOnlyRootFilesystem):
		return errors.New("the root filesystem")
	}
	return admits(t, "restricted", pod)
}

// TestOpenShift: each pod requires an SCC that admits it, and the pods of other clusters would not be admitted.
func TestOpenShift(t *testing.T) {
	own := overlay(t, "openshift", nil, nil)
	plain := overlay(t, "openshift", []string{"openshift-agent"}, []string{"openshift-agent-hostnetwork"})
	for name, c := range map[string]struct {
		objects  []object
		pod, scc string
	}{
		"the operator":         {own, "manager", "restricted-v2"},
		"the agents":           {own, "agent", agentAccount},
		"agents without files": {plain, "agent", "hostnetwork-v2"},
	} {
		pod := pods(t, c.objects)[c.pod]
		if got := pod.Annotations["openshift.io/required-scc"]; got != c.scc {
			t.Errorf("%s: it requires the SCC %q", name, got)
		}
		if err := admitsSCC(t, c.scc, pod); err != nil {
			t.Errorf("%s: %s refuses %v", name, c.scc, err)
		}
	}
	elsewhere := pods(t, withAgents(t))
	if admitsSCC(t, "restricted-v2", elsewhere["manager"]) == nil ||
		admitsSCC(t, "hostnetwork-v2", elsewhere["agent"]) == nil {
		t.Error("the component openshift is not needed")
	}
	for _, o := range plain {
		if o.GetKind() == "SecurityContextConstraints" {
			t.Error("agents without files have an SCC of their own")
		}
	}
}

// TestSCCIsChecked: the API server has OpenShift's CRD, so that TestComponents finds faults in the rendered SCC.
func TestSCCIsChecked(t *testing.T) {
	installSCC(t)
	for field, want := range map[string]string{
		"allowHostPort":  `unknown field "allowHostPort"`,
		"allowHostPorts": "priority: Required value",
	} {
		scc := &unstructured.Unstructured{Object: map[string]any{field: true}}
		scc.SetGroupVersionKind(schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1",
			Kind: "SecurityContextConstraints"})
		scc.SetName("checked")
		if err := kube.Create(t.Context(), scc, client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// installSCC installs the CRD of SecurityContextConstraints that is in OpenShift's API.
func installSCC(t *testing.T) {
	t.Helper()
	cluster.Must(t, control.InstallPinnedCRD(t.Context(), "github.com/openshift/api", "security/v1/"+
		"zz_generated.crd-manifests/0000_03_config-operator_01_securitycontextconstraints.crd.yaml"))
}

// TestPodSecurityOfTheUpgrade: the pod that upgrades the CRD is admitted in a restricted namespace, and on OpenShift
// under the SCC of the operator.
func TestPodSecurityOfTheUpgrade(t *testing.T) {
	for _, openshift := range []string{"false", "true"} {
		out, err := tool(t.Context(), "helm", "template", "nodegate", "charts/nodegate", "--namespace", namespace,
			"--kube-version=1.32.0", "--show-only=templates/crd_upgrade.yaml", "--set=openshift.enabled="+openshift)
		cluster.Must(t, err)
		hooks, err := cluster.ParseObjects(out)
		cluster.Must(t, err)
		job, err := find[batchv1.Job](hooks, "Job", "nodegate-crd-upgrade")
		cluster.Must(t, err)
		if err := admits(t, "restricted", &job.Spec.Template); err != nil {
			t.Errorf("openshift.enabled=%s: %v", openshift, err)
		}
		if err := admitsSCC(t, "restricted-v2", &job.Spec.Template); (err == nil) != (openshift == "true") {
			t.Errorf("openshift.enabled=%s: restricted-v2 answers %v", openshift, err)
		}
	}
}

// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// scc is a SecurityContextConstraints, as far as a pod is judged by it here.
type scc struct {
	AllowHostNetwork         bool
	AllowHostPorts           bool
	AllowHostDirVolumePlugin bool
	AllowHostPID             bool
	AllowHostIPC             bool
	AllowPrivilegedContainer bool
	AllowPrivilegeEscalation bool
	ReadOnlyRootFilesystem   bool
	AllowedCapabilities      []corev1.Capability
	RequiredDropCapabilities []corev1.Capability
	SeccompProfiles          []string
	Volumes                  []string
	RunAsUser                struct {
		Type                     string
		UID                      *int64
		UIDRangeMin, UIDRangeMax *int64
	}
	SupplementalGroups groups
	FSGroup            groups
	SELinuxContext     struct {
		Type           string
		SELinuxOptions *corev1.SELinuxOptions
	}
}

type groups struct {
	Type   string
	Ranges []struct{ Min, Max int64 }
}

// allow says whether a pod may be in the group.
func (g groups) allow(id int64) bool {
	return g.Type == "RunAsAny" || slices.ContainsFunc(g.Ranges, func(r struct{ Min, Max int64 }) bool { return r.Min <= id && id <= r.Max })
}

// namespaceRange is what OpenShift has given a namespace: by it the SCCs that OpenShift comes with choose users and groups.
const namespaceRange = `{"min": 1000680000, "max": 1000689999}`

// stock are two SCCs that OpenShift comes with, in a namespace.
var stock = map[string]string{
	"restricted-v2": `{"allowPrivilegeEscalation": false, "allowedCapabilities": ["NET_BIND_SERVICE"], "requiredDropCapabilities": ["ALL"],
		"runAsUser": {"type": "MustRunAsRange", "uidRangeMin": 1000680000, "uidRangeMax": 1000689999}, "seLinuxContext": {"type": "MustRunAs"},
		"seccompProfiles": ["runtime/default"], "supplementalGroups": {"type": "RunAsAny"}, "fsGroup": {"type": "MustRunAs", "ranges": [` + namespaceRange + `]},
		"volumes": ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"]}`,
	"hostnetwork-v2": `{"allowHostNetwork": true, "allowHostPorts": true, "allowPrivilegeEscalation": false, "allowedCapabilities": ["NET_BIND_SERVICE"],
		"requiredDropCapabilities": ["ALL"], "runAsUser": {"type": "MustRunAsRange", "uidRangeMin": 1000680000, "uidRangeMax": 1000689999},
		"seLinuxContext": {"type": "MustRunAs"}, "seccompProfiles": ["runtime/default"], "supplementalGroups": {"type": "MustRunAs", "ranges": [` + namespaceRange + `]},
		"fsGroup": {"type": "MustRunAs", "ranges": [` + namespaceRange + `]},
		"volumes": ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"]}`,
}

// judge says why OpenShift would not admit the pod under the SCC. What a pod leaves open OpenShift fills in.
func (s *scc) judge(pod *corev1.PodSpec) (refusals []string) {
	refuse := func(ok bool, format string, args ...any) {
		if !ok {
			refusals = append(refusals, fmt.Sprintf(format, args...))
		}
	}
	refuse(s.AllowHostNetwork || !pod.HostNetwork, "hostNetwork")
	refuse(s.AllowHostPID || !pod.HostPID, "hostPID")
	refuse(s.AllowHostIPC || !pod.HostIPC, "hostIPC")
	for i := range pod.Volumes {
		kind := volumeType(&pod.Volumes[i])
		refuse(slices.Contains(s.Volumes, kind) && (kind != "hostPath" || s.AllowHostDirVolumePlugin), "volume %s: %s", pod.Volumes[i].Name, kind)
	}
	sc := pod.SecurityContext
	for _, g := range sc.SupplementalGroups {
		refuse(s.SupplementalGroups.allow(g), "group %d", g)
	}
	if sc.FSGroup != nil {
		refuse(s.FSGroup.allow(*sc.FSGroup), "fsGroup %d", *sc.FSGroup)
	}
	if sc.SELinuxOptions != nil {
		refuse(s.SELinuxContext.Type == "RunAsAny" || cmp.Equal(sc.SELinuxOptions, s.SELinuxContext.SELinuxOptions), "SELinux %v", sc.SELinuxOptions)
	}
	if sc.SeccompProfile != nil {
		refuse(sc.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault && slices.Contains(s.SeccompProfiles, "runtime/default"), "seccomp %s", sc.SeccompProfile.Type)
	}
	if sc.RunAsUser != nil {
		refuse(s.allowUser(*sc.RunAsUser), "user %d", *sc.RunAsUser)
	}
	for i := range pod.Containers {
		s.judgeContainer(&pod.Containers[i], refuse)
	}
	return refusals
}

func (s *scc) judgeContainer(c *corev1.Container, refuse func(bool, string, ...any)) {
	for _, p := range c.Ports {
		refuse(s.AllowHostPorts || p.HostPort == 0, "host port %d", p.HostPort)
	}
	sc := c.SecurityContext
	if sc.RunAsUser != nil {
		refuse(s.allowUser(*sc.RunAsUser), "user %d", *sc.RunAsUser)
	}
	refuse(s.AllowPrivilegedContainer || sc.Privileged == nil || !*sc.Privileged, "privileged")
	refuse(s.AllowPrivilegeEscalation || sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation, "privilege escalation")
	refuse(!s.ReadOnlyRootFilesystem || sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem, "writable root filesystem")
	for _, a := range sc.Capabilities.Add {
		refuse(slices.Contains(s.AllowedCapabilities, a), "capability %s", a)
	}
	for _, d := range s.RequiredDropCapabilities {
		refuse(slices.Contains(sc.Capabilities.Drop, d), "capabilities but %s", d)
	}
	refuse(sc.SELinuxOptions == nil && sc.SeccompProfile == nil, "a container's own SELinux or seccomp: judge them, too")
}

func (s *scc) allowUser(id int64) bool {
	u := &s.RunAsUser
	switch u.Type {
	case "RunAsAny":
		return true
	case "MustRunAs":
		return *u.UID == id
	case "MustRunAsRange":
		return *u.UIDRangeMin <= id && id <= *u.UIDRangeMax
	}
	return false
}

// volumeType is how an SCC calls what the volume is from: by the field.
func volumeType(v *corev1.Volume) string {
	raw, err := json.Marshal(v.VolumeSource)
	fields := map[string]any{}
	if err != nil || json.Unmarshal(raw, &fields) != nil || len(fields) != 1 {
		return "unknown"
	}
	return slices.Collect(maps.Keys(fields))[0]
}

// installSCC has the API server know SecurityContextConstraints, by the definition in OpenShift's API.
func installSCC(t *testing.T) {
	t.Helper()
	if err := sccInstalled(); err != nil {
		t.Fatal(err)
	}
}

var sccInstalled = sync.OnceValue(func() error {
	out, err := execute(context.Background(), "go", "-C", "hack/tools/openshift", "mod", "download", "-json", "github.com/openshift/api")
	if err != nil {
		return err
	}
	module := struct{ Dir string }{}
	if err := json.Unmarshal(out, &module); err != nil {
		return err
	}
	_, err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths:              []string{filepath.Join(module.Dir, "security", "v1", "zz_generated.crd-manifests")},
		ErrorIfPathMissing: true,
		MaxTime:            time.Minute,
	})
	return err
})

// ownSCC is the SCC that is rendered.
func ownSCC(t *testing.T, objects []object) *scc {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == "SecurityContextConstraints" {
			return readSCC(t, o.Object)
		}
	}
	t.Fatal("there is no SecurityContextConstraints")
	return nil
}

func readSCC(t *testing.T, v any) *scc {
	t.Helper()
	raw, err := json.Marshal(v)
	if text, ok := v.(string); ok {
		raw = []byte(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &scc{}
	if err := json.Unmarshal(raw, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// pods are the rendered pods as they are created: with the token that each gets, and by name of the SCC that they ask for.
func pods(t *testing.T, objects []object) map[string]*corev1.PodTemplateSpec {
	t.Helper()
	out := map[string]*corev1.PodTemplateSpec{}
	d, err := find[appsv1.Deployment](objects, "Deployment", serviceAccount)
	if err != nil {
		t.Fatal(err)
	}
	out["manager"] = &d.Spec.Template
	if ds, err := find[appsv1.DaemonSet](objects, "DaemonSet", agentAccount); err == nil {
		out["agent"] = &ds.Spec.Template
	}
	for _, p := range out {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}})
	}
	return out
}

// TestOpenShift: each pod asks for an SCC, and is admitted under it.
func TestOpenShift(t *testing.T) {
	own := overlay(t, "openshift", nil, nil)
	plain := overlay(t, "openshift", []string{"openshift-agent"}, []string{"openshift-agent-hostnetwork"})
	for name, c := range map[string]struct {
		objects []object
		pod     string
		scc     string
	}{
		"the operator":         {own, "manager", "restricted-v2"},
		"the agents":           {own, "agent", "nodegate-agent"},
		"agents without files": {plain, "agent", "hostnetwork-v2"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := pods(t, c.objects)[c.pod]
			if got := pod.Annotations["openshift.io/required-scc"]; got != c.scc {
				t.Errorf("it asks for the SCC %q", got)
			}
			var s *scc
			if text, ok := stock[c.scc]; ok {
				s = readSCC(t, text)
			} else {
				s = ownSCC(t, c.objects)
			}
			if refusals := s.judge(&pod.Spec); len(refusals) > 0 {
				t.Errorf("%s refuses it: %s", c.scc, strings.Join(refusals, "; "))
			}
		})
	}
	for _, o := range plain {
		if o.GetKind() == "SecurityContextConstraints" {
			t.Error("agents without files have an SCC of their own")
		}
	}
}

// TestOpenShiftRefusesMore: the judge can refuse, and our SCC allows nothing that the agents do not do.
func TestOpenShiftRefusesMore(t *testing.T) {
	objects := overlay(t, "openshift", nil, nil)
	s := ownSCC(t, objects)
	for want, change := range map[string]func(*corev1.PodSpec){
		"hostPID":                  func(p *corev1.PodSpec) { p.HostPID = true },
		"hostIPC":                  func(p *corev1.PodSpec) { p.HostIPC = true },
		"privileged":               func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Privileged = new(true) },
		"privilege escalation":     func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(true) },
		"writable root filesystem": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.ReadOnlyRootFilesystem = nil },
		"capability NET_RAW": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_RAW"}
		},
		"capabilities but ALL": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Capabilities.Drop = nil },
		"user 0":               func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = new(int64(0)) },
		"group 5":              func(p *corev1.PodSpec) { p.SecurityContext.SupplementalGroups = []int64{0, 5} },
		"fsGroup 0":            func(p *corev1.PodSpec) { p.SecurityContext.FSGroup = new(int64(0)) },
		"seccomp Unconfined":   func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined },
		"volume secrets: secret": func(p *corev1.PodSpec) {
			p.Volumes[0] = corev1.Volume{Name: "secrets", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}}
		},
		"volume scratch: emptyDir": func(p *corev1.PodSpec) {
			p.Volumes[0] = corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
		},
	} {
		pod := pods(t, objects)["agent"].Spec.DeepCopy()
		change(pod)
		if diff := cmp.Diff([]string{want}, s.judge(pod)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	// As they run elsewhere, neither pod would be admitted by what OpenShift comes with.
	elsewhere := pods(t, withAgents(t))
	for pod, want := range map[string]struct {
		scc      string
		refusals []string
	}{
		"manager": {"restricted-v2", []string{"user 65532"}},
		"agent":   {"hostnetwork-v2", []string{"volume host: hostPath", "group 0", "user 65532"}},
	} {
		if diff := cmp.Diff(want.refusals, readSCC(t, stock[want.scc]).judge(&elsewhere[pod].Spec)); diff != "" {
			t.Errorf("%s under %s (-want +got):\n%s", pod, want.scc, diff)
		}
	}
}

// TestOpenShiftRights: the agents alone may use their SCC, in their namespace.
func TestOpenShiftRights(t *testing.T) {
	objects := overlay(t, "openshift", nil, nil)
	role, err := find[rbacv1.Role](objects, "Role", "nodegate-agent-scc")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{{
		APIGroups: []string{"security.openshift.io"}, Resources: []string{"securitycontextconstraints"},
		ResourceNames: []string{"nodegate-agent"}, Verbs: []string{"use"},
	}}, role.Rules); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, o := range objects {
		if o.GetKind() != "SecurityContextConstraints" {
			continue
		}
		for _, field := range []string{"users", "groups"} {
			if who, ok, err := unstructured.NestedStringSlice(o.Object, field); err != nil || !ok || len(who) > 0 {
				t.Errorf("%s may use the SCC: %v %v", field, who, err)
			}
		}
	}
	for name, set := range map[string]string{"nodegate-agent": "agent.enabled=true", "mine": "agent.enabled=true,agent.serviceAccount.name=mine"} {
		chart, err := helm(t.Context(), "--set", "openshift.enabled=true,"+set)
		if err != nil {
			t.Fatal(err)
		}
		binding, err := find[rbacv1.RoleBinding](chart, "RoleBinding", "nodegate-agent-scc")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: namespace}}, binding.Subjects); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// TestChartOpenShiftValues: what values change beside what the components are.
func TestChartOpenShiftValues(t *testing.T) {
	for set, want := range map[string]struct {
		path string
		want any
	}{
		"agent.supplementalGroups={0,27}": {"SecurityContextConstraints/nodegate-agent/supplementalGroups.ranges.1.max", int64(27)},
		"agent.supplementalGroups=null":   {"SecurityContextConstraints/nodegate-agent/supplementalGroups.ranges.0.min", int64(65532)},
		"agent.metricsPort=9999":          {"DaemonSet/nodegate-agent/spec.template.spec.containers.0.ports.1.hostPort", int64(9999)},
		"fullnameOverride=gate":           {"DaemonSet/gate-agent/spec.template.metadata.annotations.openshift\\.io/required-scc", "gate-agent"},
	} {
		objects, err := helm(t.Context(), "--set", "openshift.enabled=true,agent.enabled=true", "--set", set)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, o := range objects {
			if rest, ok := strings.CutPrefix(want.path, o.GetKind()+"/"+o.GetName()+"/"); ok {
				found = true
				if diff := cmp.Diff(want.want, at(o.Object, rest)); diff != "" {
					t.Errorf("%s: -want +got:\n%s", set, diff)
				}
			}
		}
		if !found {
			t.Errorf("%s: there is no %s", set, want.path)
		}
	}
}

// TestSCCIsChecked: the definition by which the rendered SCC is checked refuses what is wrong.
func TestSCCIsChecked(t *testing.T) {
	installSCC(t)
	for _, o := range overlay(t, "openshift", nil, nil) {
		if o.GetKind() != "SecurityContextConstraints" {
			continue
		}
		create := func() error { return kube.Create(t.Context(), o.DeepCopy(), client.DryRunAll) }
		if err := create(); err != nil {
			t.Errorf("as rendered: %v", err)
		}
		o.Object["allowHostPort"] = true
		if err := create(); err == nil || !strings.Contains(err.Error(), `unknown field "allowHostPort"`) {
			t.Errorf("a field that there is not: %v", err)
		}
		delete(o.Object, "allowHostPort")
		delete(o.Object, "priority")
		if err := create(); err == nil || !strings.Contains(err.Error(), "priority: Required value") {
			t.Errorf("a field that must be there is not: %v", err)
		}
	}
}

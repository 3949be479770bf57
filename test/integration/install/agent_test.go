// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	agentAccount = "nodegate-agent"
)

// withAgents is what config/with-agent renders. All of it is there after the first call but its namespace, which admits more.
func withAgents(t *testing.T) []object {
	t.Helper()
	objects, err := kustomize(t.Context(), "config/with-agent")
	if err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc(slices.Clone(objects), func(o object) bool {
		return !strings.Contains(o.GetName(), "agent")
	})
	if err := apply(t.Context(), others, "kustomize"); err != nil {
		t.Fatal(err)
	}
	return objects
}

func agentDaemonSet(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	ds, err := find[appsv1.DaemonSet](withAgents(t), "DaemonSet", agentAccount)
	if err != nil {
		t.Fatal(err)
	}
	return &ds
}

func TestChartIsConfigWithAgent(t *testing.T) {
	chart, err := helm(t.Context(), "--set", "agent.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(byName(withAgents(t)), byName(chart)); diff != "" {
		t.Errorf("-config/with-agent +chart:\n%s", diff)
	}
}

// TestWithAgentIsConfigDefault: config/with-agent adds to config/default, and changes nothing of it but what its namespace
// admits.
func TestWithAgentIsConfigDefault(t *testing.T) {
	with := withAgents(t)
	all := byName(with)
	for id, o := range byName(installed) {
		if diff := cmp.Diff(o, all[id]); diff != "" {
			t.Errorf("%s (-config/default +config/with-agent):\n%s", id, diff)
		}
	}
	ns, err := find[corev1.Namespace](with, "Namespace", namespace)
	if err != nil {
		t.Fatal(err)
	}
	if got := ns.Labels["pod-security.kubernetes.io/enforce"]; got != "privileged" {
		t.Errorf("the namespace enforces %q", got)
	}
}

func TestChartAgentValues(t *testing.T) {
	const (
		ds  = "DaemonSet/nodegate-agent/spec."
		pod = ds + "template.spec."
	)
	usual := len(withAgents(t))
	for name, c := range map[string]valuesCase{
		"enabled":                          {path: pod + "containers.0.command.0", want: "/agent"},
		"image.digest":                     {set: `image: {digest: "sha256:` + strings.Repeat("a", 64) + `"}`, path: pod + "containers.0.image", want: "ghcr.io/nodegate/nodegate@sha256:" + strings.Repeat("a", 64)},
		"image.pullPolicy":                 {set: "image: {pullPolicy: Always}", path: pod + "containers.0.imagePullPolicy", want: "Always"},
		"imagePullSecrets":                 {set: "imagePullSecrets: [{name: s}]", path: pod + "imagePullSecrets.0.name", want: "s"},
		"agent.port":                       {set: "agent: {port: 8080}", path: pod + "containers.0.args.2", want: "--listen-port=8080"},
		"agent.port of the host":           {set: "agent: {port: 8080}", path: pod + "containers.0.ports.0.hostPort", want: int64(8080)},
		"agent.agentCheckPort":             {set: "agent: {agentCheckPort: 25002}", path: pod + "containers.0.args.5", want: "--agent-check-port=25002"},
		"agent.agentCheckPort of the host": {set: "agent: {agentCheckPort: 25002}", path: pod + "containers.0.ports.1.hostPort", want: int64(25002)},
		"agent.metricsPort":                {set: "agent: {metricsPort: 9446}", path: pod + "containers.0.args.3", want: "--metrics-bind-address=:9446"},
		"agent.apiUnavailable":             {set: "agent: {apiUnavailable: last-known}", path: pod + "containers.0.args.5", want: "--api-unavailable=last-known"},
		"agent.allowRemote":                {set: "agent: {allowRemote: true}", path: pod + "containers.0.args.5", want: "--allow-remote"},
		"agent.drainSeconds":               {set: "agent: {drainSeconds: 60}", path: pod + "containers.0.args.4", want: "--drain-time=60s"},
		"agent.drainSeconds and the rest":  {set: "agent: {drainSeconds: 60}", path: pod + "terminationGracePeriodSeconds", want: int64(75)},
		"agent.minReadySeconds":            {set: "agent: {minReadySeconds: 5}", path: ds + "minReadySeconds", want: int64(5)},
		"agent.maxUnavailable":             {set: "agent: {maxUnavailable: 3}", path: ds + "updateStrategy.rollingUpdate.maxUnavailable", want: int64(3)},
		"agent.supplementalGroups":         {set: "agent: {supplementalGroups: []}", path: pod + "securityContext.supplementalGroups"},
		"agent.hostRoot.enabled":           {set: "agent: {hostRoot: {enabled: false}}", path: pod + "containers.0.args.1", want: "--host-root=none"},
		"agent.hostRoot.enabled of groups": {set: "agent: {hostRoot: {enabled: false}}", path: pod + "securityContext.supplementalGroups"},
		"agent.policy.enabled":             {set: "agent: {policy: {enabled: false}}", gone: []string{"ValidatingAdmissionPolicy/nodegate-agent", "ValidatingAdmissionPolicyBinding/nodegate-agent", "ValidatingAdmissionPolicy/nodegate-agent-conditions", "ValidatingAdmissionPolicyBinding/nodegate-agent-conditions"}},
		"agent.conditions":                 {set: "agent: {conditions: [example.com/A, B]}", path: "ValidatingAdmissionPolicy/nodegate-agent-conditions/spec.variables.4.expression", want: `["example.com/A","B"]`},
		"agent.extraArgs":                  {set: "agent: {extraArgs: [--log-level=debug]}", path: pod + "containers.0.args.5", want: "--log-level=debug"},
		"agent.extraEnv":                   {set: "agent: {extraEnv: [{name: KUBERNETES_SERVICE_HOST, value: api.example.com}]}", path: pod + "containers.0.env.1.value", want: "api.example.com"},
		"agent.resources":                  {set: "agent: {resources: {limits: {memory: 1Gi}}}", path: pod + "containers.0.resources.limits.memory", want: "1Gi"},
		"agent.priorityClassName":          {set: `agent: {priorityClassName: ""}`, path: pod + "priorityClassName"},
		"agent.tolerations":                {set: "agent: {tolerations: [{key: a, operator: Exists}]}", path: pod + "tolerations.0.key", want: "a"},
		"agent.nodeSelector":               {set: "agent: {nodeSelector: {a: b}}", path: pod + "nodeSelector.a", want: "b"},
		"agent.affinity":                   {set: "agent: {affinity: {nodeAffinity: {}}}", path: pod + "affinity", want: map[string]any{"nodeAffinity": map[string]any{}}},
		"agent.podAnnotations":             {set: "agent: {podAnnotations: {a: b}}", path: ds + "template.metadata.annotations.a", want: "b"},
		"agent.podLabels":                  {set: "agent: {podLabels: {a: b}}", path: ds + "template.metadata.labels.a", want: "b"},
		"agent.serviceAccount.annotations": {set: "agent: {serviceAccount: {annotations: {a: b}}}", path: "ServiceAccount/nodegate-agent/metadata.annotations.a", want: "b"},
		"agent.serviceAccount.name":        {set: "agent: {serviceAccount: {name: mine}}", path: "ClusterRoleBinding/nodegate-agent/subjects.0.name", want: "mine", count: usual - 1},
		"agent.serviceAccount.name of the policy": {set: "agent: {serviceAccount: {name: mine}}", path: "ValidatingAdmissionPolicy/nodegate-agent/spec.matchConditions.0.expression",
			want: "request.userInfo.username == 'system:serviceaccount:nodegate-system:mine'", count: usual - 1},
		"agent.serviceAccount.create": {set: "agent: {serviceAccount: {create: false, name: theirs}}", path: pod + "serviceAccountName", want: "theirs", gone: []string{"ServiceAccount/nodegate-agent"}},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, usual, "--set", "agent.enabled=true") })
	}
}

func TestChartRefusesBadAgentValues(t *testing.T) {
	for set, want := range map[string]string{
		"agent.port=80":                   "at '/agent/port': minimum: got 80, want 1,024",
		"agent.agentCheckPort=80":         "at '/agent/agentCheckPort'",
		"agent.apiUnavailable=fail":       "at '/agent/apiUnavailable': value must be one of",
		"agent.conditions={a'b}":          "at '/agent/conditions/0'",
		"agent.maxUnavailable=0%":         "at '/agent/maxUnavailable'",
		"agent.daemonset=true":            "additional properties 'daemonset' not allowed",
		"agent.supplementalGroups={root}": "at '/agent/supplementalGroups/0'",
	} {
		if _, err := helm(t.Context(), "--set", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s\nshould be refused with: %s\nbut: %v", set, want, err)
		}
	}
}

// TestAgentPod: the agents' pods are admitted where config/with-agent puts them, and may do no more on a node than they have to.
func TestAgentPod(t *testing.T) {
	template := agentDaemonSet(t).Spec.Template
	admits := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "admits-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}}
	if err := kube.Create(t.Context(), admits); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Name, pod.Namespace = "as-deployed", admits.Name
	if err := kube.Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Errorf("the pod is not admitted: %v", err)
	}
	type facts struct {
		HostNetwork, HostPID, HostIPC, NonRoot, ReadOnlyRoot, Privileged, Escalation bool
		User                                                                         int64
		Capabilities                                                                 corev1.Capabilities
		Seccomp                                                                      corev1.SeccompProfileType
		Priority                                                                     string
		Writable                                                                     []string
		Volumes                                                                      []string
	}
	spec, c := template.Spec, template.Spec.Containers[0]
	got := facts{
		HostNetwork: spec.HostNetwork, HostPID: spec.HostPID, HostIPC: spec.HostIPC, NonRoot: *spec.SecurityContext.RunAsNonRoot,
		ReadOnlyRoot: *c.SecurityContext.ReadOnlyRootFilesystem, Privileged: c.SecurityContext.Privileged != nil, Escalation: *c.SecurityContext.AllowPrivilegeEscalation,
		User: *spec.SecurityContext.RunAsUser, Capabilities: *c.SecurityContext.Capabilities, Seccomp: spec.SecurityContext.SeccompProfile.Type, Priority: spec.PriorityClassName,
	}
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly {
			got.Writable = append(got.Writable, m.MountPath)
		}
	}
	for _, v := range spec.Volumes {
		got.Volumes = append(got.Volumes, v.Name)
	}
	want := facts{
		HostNetwork: true, NonRoot: true, ReadOnlyRoot: true, User: 65532, Capabilities: corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		Seccomp: corev1.SeccompProfileTypeRuntimeDefault, Priority: "system-node-critical", Volumes: []string{"config", "host"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		taint := &corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: effect}
		if !slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), taint, false) && t.TolerationSeconds == nil
		}) {
			t.Errorf("%s is not tolerated", taint.ToString())
		}
	}
	drain, err := time.ParseDuration(strings.TrimPrefix(c.Args[4], "--drain-time="))
	if err != nil {
		t.Fatal(err)
	}
	if grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second; grace < drain+10*time.Second {
		t.Errorf("%s to end are not enough to drain for %s", grace, drain)
	}
}

// TestTheAgentMayDoNothingElse asks the API server about every verb on every resource that it serves.
func TestTheAgentMayDoNothingElse(t *testing.T) {
	withAgents(t)
	want := map[string][]string{
		"nodes":        {"get", "list", "watch"},
		"nodes/status": {"patch"},
		// Everybody may ask about themselves.
		"selfsubjectreviews.authentication.k8s.io":      {"create"},
		"selfsubjectaccessreviews.authorization.k8s.io": {"create"},
		"selfsubjectrulesreviews.authorization.k8s.io":  {"create"},
	}
	eventuallyEqual(t, "the agent's rights", want, func() map[string][]string {
		got := map[string][]string{}
		for _, r := range resources(t) {
			resource, subresource, _ := strings.Cut(r.Resource, "/")
			for _, ns := range []string{"", namespace} {
				for _, verb := range verbs {
					a := authorizationv1.ResourceAttributes{Group: r.Group, Resource: resource, Subresource: subresource, Namespace: ns, Verb: verb}
					if allowed(t, "system:serviceaccount:"+namespace+":"+agentAccount, &a) && !slices.Contains(got[r.String()], verb) {
						got[r.String()] = append(got[r.String()], verb)
					}
				}
			}
		}
		return got
	})
}
